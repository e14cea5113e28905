"""What restoring and prefilling cost here, measured while they happen."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Line:
    """Cost as a line over size, fitted to what was seen; old samples fade (factor 0.9 each)."""

    count: int = 0
    _w: float = 0.0
    _x: float = 0.0
    _y: float = 0.0
    _xx: float = 0.0
    _xy: float = 0.0

    def add(self, size: float, ms: float) -> None:
        """One sample."""
        fade = 0.9
        self._w = self._w * fade + 1
        self._x = self._x * fade + size
        self._y = self._y * fade + ms
        self._xx = self._xx * fade + size * size
        self._xy = self._xy * fade + size * ms
        self.count += 1

    def fit(self) -> tuple[float, float]:
        """(fixed ms, ms per unit), neither negative. A line through 0 while all sizes are alike."""
        if self.count == 0:
            return 0.0, 0.0
        spread = self._w * self._xx - self._x * self._x
        through_zero = self._xy / self._xx if self._xx else 0.0
        if spread <= 1e-9 * max(1.0, self._w * self._xx):
            return 0.0, through_zero
        slope = (self._w * self._xy - self._x * self._y) / spread
        fixed = (self._y - slope * self._x) / self._w
        if slope < 0:
            return max(0.0, self._y / self._w), 0.0
        return (fixed, slope) if fixed >= 0 else (0.0, through_zero)

    def cost(self, size: float) -> float:
        """Expected milliseconds for ``size`` units."""
        fixed, slope = self.fit()
        return fixed + slope * size


class BreakEven:
    """Is a hit of so many tokens cheaper than prefilling them? Says yes until both sides were seen."""

    def __init__(self, samples: int = 3, explore_every: int = 16) -> None:
        self.prefill = Line()
        self.fetch = Line()
        self._samples = samples
        self._explore_every = explore_every
        self._skipped = 0

    def pays(self, tokens: int, saved_tokens: int) -> bool:
        """Restore a state of ``tokens`` tokens to save prefilling ``saved_tokens`` of them?

        Now and then a hit that seems too short is taken all the same, so that one slow reading
        does not decide for ever.
        """
        if self.prefill.count < self._samples or self.fetch.count < self._samples:
            return True
        if self.fetch.cost(tokens) <= self.prefill.cost(saved_tokens):
            return True
        self._skipped += 1
        return self._skipped % self._explore_every == 0

    def crossing_tokens(self) -> int | None:
        """Fewest tokens from which a hit is cheaper, or None while it was not measured (or never is)."""
        if self.prefill.count < self._samples or self.fetch.count < self._samples:
            return None
        fetch_fixed, fetch_slope = self.fetch.fit()
        fill_fixed, fill_slope = self.prefill.fit()
        if fetch_fixed <= fill_fixed:
            return 1
        if fill_slope <= fetch_slope:
            return None
        return max(1, int(-(-(fetch_fixed - fill_fixed) // (fill_slope - fetch_slope))))
