"""What every engine's ``PionPromptCache`` offers beside its own calls."""

from __future__ import annotations

from .core import PromptCore
from .engine import Engine, Report, Reuse


class Adapter:
    """Base of the adapters: one engine, one core, and what they tell. Subclasses set ``engine`` and ``core``."""

    engine: Engine
    core: PromptCore

    @property
    def reuse(self) -> Reuse:
        """What reuse this model allows, and why: "any" token, "boundaries", or "none"."""
        return self.engine.reuse

    @property
    def last(self) -> Report | None:
        """What the last call did."""
        return self.core.last

    @property
    def enabled(self) -> bool:
        """False: nothing is sent to the server, every prompt is prefilled."""
        return self.core.enabled

    @enabled.setter
    def enabled(self, value: bool) -> None:
        self.core.enabled = value

    def model_changed(self) -> None:
        """Weights or adapters were changed in place: nothing stored before is matched any more."""
        self.core.model_changed()

    def flush(self, timeout_s: float = 30.0) -> bool:
        """Wait until all that was prefilled is stored; False when that took too long."""
        return self.core.flush(timeout_s)

    def close(self) -> None:
        """Flush and close the connections."""
        self.core.close()

    def __enter__(self):  # type: ignore[no-untyped-def]  # typing.Self is newer than Python 3.10
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
