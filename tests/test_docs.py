"""Pages that are printed from tables are the printed ones."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from support import parts

ROOT = Path(__file__).resolve().parents[1]


def printed(page: str) -> str:
    return subprocess.run([str(parts.pion_server()), "--dump-docs", page], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("page", ["commands", "configuration"])
def test_the_page_is_current(page: str) -> None:
    text = (ROOT / "docs" / f"{page}.md").read_text()
    generated = printed(page)
    assert generated.strip()
    assert text.endswith(generated), f"run scripts/update-docs: docs/{page}.md is not what the server prints"
