"""The demo on the real engines: every row is there, matched what it should, and tokens and K/V are equal everywhere."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from support import parts

PREFIX = {"llama": 600, "mlx": 300}  # not a multiple of a step: the last step is a short one


@pytest.mark.parametrize("engine", ["llama", "mlx"])
def test_every_source_of_the_prefix_gives_the_same_answer(engine: str, tmp_path: Path) -> None:
    prefix, out = PREFIX[engine], tmp_path / "rows.json"
    done = subprocess.run(
        [
            str(parts.part("PION_PYTHON")), str(parts.ROOT / "examples" / "prompt_cache_demo.py"), "--engine", engine,
            "--prefix", str(prefix), "--processes", "1", "--cold-runs", "1", "--answer", "24", "--json", str(out),
        ],
        capture_output=True, text=True, timeout=280,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    rows = json.loads(out.read_text())
    assert len(rows) == 8
    for name, row in rows.items():
        assert row["tokens_equal"] and all(row["tokens_equal"]), name
        assert row["kv_equal"] and all(row["kv_equal"]), name
        for taken in row["reports"]:
            if name.startswith("Pion"):
                assert taken["report"]["matched"] == prefix, (name, taken["report"])
                assert taken["report"]["bytes_read"] > 0
    assert "SIGKILL" in done.stdout


def test_the_picture_is_drawn_from_points(tmp_path: Path) -> None:
    import sys

    sys.path.insert(0, str(parts.ROOT / "examples"))
    from ttft import picture

    path = tmp_path / "a" / "b.svg"
    picture.draw(path, "title", "x < y & z", {"one": [(128, 900.0, 800.0, 1000.0), (256, 1800.0, 1700.0, 1900.0)], "two": [(128, 9.0, 8.0, 10.0)]})
    text = path.read_text()
    assert text.count("<polyline") == 2 and text.count("<circle") == 3
    assert "x &lt; y &amp; z" in text and "one (1.8 s)" in text and "two (9 ms)" in text
