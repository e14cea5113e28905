"""Where prompts part from what is stored, and a warning when they keep doing so near their start."""

from __future__ import annotations

from .engine import Fork

_HEAD_TOKENS = 64  # a prompt that parts so early shares nothing worth having
_LONG_TOKENS = 256
_BEFORE_WARNING = 3


class ForkWatch:
    """Counts long prompts in a row that parted within their first tokens."""

    def __init__(self) -> None:
        self._early = 0

    def see(self, fork: Fork, size: int) -> str:
        """One fork of a prompt of ``size`` tokens; a sentence for the user when it is time to say something, else ""."""
        if fork.position >= _HEAD_TOKENS or size < _LONG_TOKENS:
            self._early = 0
            return ""
        self._early += 1
        if self._early != _BEFORE_WARNING:
            return ""
        return (
            f"long prompts keep parting near their start, so nothing is reused; the last one at {fork}. "
            "Something that changes (a date, a counter) stands there: move it towards the end."
        )
