"""The house's own rules: a room includes only rooms above it, files stay readable, nothing names the workplace."""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ["base", "io", "resp", "storage", "keyspace", "prompt", "command", "server"]
MAX_LINES = 720
TABLES = {"src/command/redis_facts.cc"}  # facts, one row after the other, and nothing else


def tracked(*patterns: str) -> list[Path]:
    names = subprocess.run(["git", "ls-files", *patterns], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n")
    return [ROOT / name for name in names if name]


def test_a_room_includes_only_rooms_above_it() -> None:
    wrong = []
    for room in ROOMS:
        allowed = ROOMS[: ROOMS.index(room) + 1]
        for source in tracked(f"src/{room}/*.cc", f"src/{room}/*.h"):
            for included in re.findall(r'^#include "(\w+)/', source.read_text(), re.MULTILINE):
                if included not in allowed:
                    wrong.append(f"{source.relative_to(ROOT)} includes {included}/")
    assert not wrong


def test_every_room_has_a_readme() -> None:
    assert [room for room in ROOMS if not (ROOT / "src" / room / "README.md").exists()] == []


def test_files_stay_short() -> None:
    sources = tracked("*.cc", "*.h", "*.py")
    assert sources
    long = {str(f.relative_to(ROOT)): n for f in sources if (n := len(f.read_text().splitlines())) > MAX_LINES and str(f.relative_to(ROOT)) not in TABLES}
    assert long == {}


def test_nothing_names_a_workplace() -> None:
    words = re.compile(r"/work/|/tmp/brief|farm-|\bhelper session|pypi\.org|registry\.npmjs|crates\.io/api|proxy\.golang|deb\.debian\.org")
    files = [f for f in tracked() if f.suffix in {".cc", ".h", ".py", ".md", ".sh", ".txt", ".cmake", ".toml", ""} and f != Path(__file__)]
    named = [str(f.relative_to(ROOT)) for f in files if f.is_file() and words.search(f.read_text(errors="ignore"))]
    assert named == []
