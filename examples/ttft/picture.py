"""A line chart as SVG: milliseconds (logarithmic) against prefix length. No library."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Mapping, Sequence

_COLOURS = ["#b3261e", "#8a6d00", "#1a5fb4", "#1b7f3b", "#6d3fa0", "#444444"]
_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 900, 460, 80, 330, 60, 60

Point = tuple[float, float, float, float]
"""Prefix tokens, median, least and largest milliseconds."""


def draw(path: str | Path, title: str, subtitle: str, lines: Mapping[str, Sequence[Point]]) -> None:
    """Writes the chart: one line per source, its spread as a band, its last value beside its name."""
    points = [point for line in lines.values() for point in line]
    x_max = max(point[0] for point in points)
    low = 10 ** math.floor(math.log10(min(point[2] for point in points)))
    high = 10 ** math.ceil(math.log10(max(point[3] for point in points)))

    def x(tokens: float) -> float:
        return _LEFT + tokens / x_max * (_WIDTH - _LEFT - _RIGHT)

    def y(ms: float) -> float:
        share = (math.log10(ms) - math.log10(low)) / (math.log10(high) - math.log10(low))
        return _HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM)

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif" font-size="12">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#ffffff"/>',
        f'<text x="{_LEFT}" y="24" font-size="16" font-weight="bold">{_escape(title)}</text>',
        f'<text x="{_LEFT}" y="42" fill="#555">{_escape(subtitle)}</text>',
    ]
    decade = low
    while decade <= high * 1.001:
        out.append(f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y(decade):.1f}" y2="{y(decade):.1f}" stroke="#ddd"/>')
        out.append(f'<text x="{_LEFT - 8}" y="{y(decade) + 4:.1f}" text-anchor="end">{_time(decade)}</text>')
        decade *= 10
    for tokens in sorted({point[0] for point in points}):
        out.append(f'<text x="{x(tokens):.1f}" y="{_HEIGHT - _BOTTOM + 18}" text-anchor="middle">{tokens:,.0f}</text>')
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    out.append(f'<text x="{middle}" y="{_HEIGHT - 16}" text-anchor="middle">tokens of the prefix</text>')

    labels = _spread({name: y(line[-1][1]) for name, line in lines.items()})
    for number, (name, line) in enumerate(lines.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        band = [f"{x(p[0]):.1f},{y(p[3]):.1f}" for p in line] + [f"{x(p[0]):.1f},{y(p[2]):.1f}" for p in reversed(line)]
        out.append(f'<polygon points="{" ".join(band)}" fill="{colour}" opacity="0.15"/>')
        path_points = " ".join(f"{x(p[0]):.1f},{y(p[1]):.1f}" for p in line)
        out.append(f'<polyline points="{path_points}" fill="none" stroke="{colour}" stroke-width="2"/>')
        out += [f'<circle cx="{x(p[0]):.1f}" cy="{y(p[1]):.1f}" r="3" fill="{colour}"/>' for p in line]
        text = _escape(f"{name} ({_time(line[-1][1])})")
        out.append(f'<text x="{_WIDTH - _RIGHT + 12}" y="{labels[name] + 4:.1f}" fill="{colour}">{text}</text>')
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text("\n".join(out + ["</svg>"]) + "\n")


def _spread(wanted: dict[str, float]) -> dict[str, float]:
    """Moves labels apart so that none covers another."""
    placed: dict[str, float] = {}
    last = 0.0
    for name, at in sorted(wanted.items(), key=lambda item: item[1]):
        last = max(at, last + 16)
        placed[name] = last
    return placed


def _time(ms: float) -> str:
    return f"{ms / 1000:g} s" if ms >= 1000 and ms % 1000 == 0 else f"{ms / 1000:.1f} s" if ms >= 1000 else f"{ms:.3g} ms"


def _escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;")
