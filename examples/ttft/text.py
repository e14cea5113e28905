"""A long document and a short question about it, the same on every run."""

from __future__ import annotations

import itertools

_PARTS = ["pump", "valve", "filter", "motor", "belt", "sensor", "heater", "gate", "scale", "crane"]
_NAMES = ["Marta", "Jonas", "Elif", "Pavel", "Ingrid", "Tomas", "Aisha", "Bruno", "Chiara", "Dmitri", "Noor"]
_DUTIES = ["cleans", "inspects", "greases", "calibrates", "repaints", "tests", "photographs"]
_NOTES = [
    "A worn seal is replaced on the same day.",
    "The result goes into the blue book beside the door.",
    "If it is louder than usual, the hall is closed until the cause is known.",
    "Spare parts are kept on the second shelf of the store.",
    "The night shift does not touch it without a second person.",
]

QUESTION = "\nWho cleans hall 3?"


def handbook() -> str:
    """A works handbook, longer than any prefix that is measured (over 20,000 tokens of SmolLM2)."""
    lines = ["Handbook of the works. Read it before you enter a hall.\n"]
    for number in itertools.count():
        if number == 700:
            return "\n".join(lines)
        hall, part = number // len(_PARTS) + 1, _PARTS[number % len(_PARTS)]
        name, duty = _NAMES[number * 7 % len(_NAMES)], _DUTIES[number * 5 % len(_DUTIES)]
        days = 3 + number * 11 % 29
        lines.append(
            f"Section {number + 1}. {name} {duty} the {part} of hall {hall} every {days} days. {_NOTES[number * 3 % len(_NOTES)]}"
        )
