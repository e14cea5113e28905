"""Circuit breaker: after a failure nobody waits for the server until a probe has answered."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from .errors import Unavailable

log = logging.getLogger("pion")


class Breaker:
    """Shared by all connections to one server; thread safe.

    ``fail`` opens it and writes ONE warning per outage. While it is open ``check`` raises at once. When
    ``cooldown_s`` is over, the next ``check`` starts one probe in a thread of its own (and still
    raises: no request pays for the probe); a probe that succeeds closes the breaker again.
    """

    def __init__(self, cooldown_s: float = 2.0) -> None:
        self.cooldown_s = cooldown_s
        self._lock = threading.Lock()
        self._reason: str | None = None
        self._retry_at = 0.0
        self._probing = False
        self.trips = 0

    @property
    def reason(self) -> str | None:
        """Why the server is not asked now, or None when it is."""
        return self._reason

    def check(self, probe: Callable[[], None]) -> None:
        """Raise Unavailable while open. ``probe`` connects and pings, and raises when that fails."""
        if self._reason is None:
            return
        with self._lock:
            reason = self._reason
            if reason is None:
                return
            start = not self._probing and time.monotonic() >= self._retry_at
            self._probing = self._probing or start
        if start:
            threading.Thread(target=self._probe, args=(probe,), name="pion-probe", daemon=True).start()
        raise Unavailable(reason)

    def _probe(self, probe: Callable[[], None]) -> None:
        try:
            probe()
        except Exception as error:  # whatever went wrong, the answer is: not yet
            self.fail(str(error))
        else:
            with self._lock:
                self._reason = None
            log.info("pion: the server answers again")
        finally:
            with self._lock:
                self._probing = False

    def fail(self, reason: str) -> None:
        """Open, or stay open for another cooldown."""
        with self._lock:
            first = self._reason is None
            self._reason = reason
            self._retry_at = time.monotonic() + self.cooldown_s
            self.trips += first
        if first:
            log.warning("pion: going on without the server: %s", reason)
