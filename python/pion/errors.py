"""Errors of the client and the adapters.

Two families, and adapters treat them differently:

* :class:`PionError` and its children say that the *store* could not help. An adapter
  catches every one of them, clears the engine if it had begun to restore, and prefills.
* :class:`Refused` says that the *engine's state* must not be stored or cannot be restored
  (shifted, unfinished, not finite, an unknown layout). It names what was refused.
"""

from __future__ import annotations

import re


class PionError(Exception):
    """Any failure of the store as the client sees it."""


class Unavailable(PionError):
    """No answer: down, too slow, or the circuit breaker is open."""


class ProtocolError(PionError):
    """The peer sent what is not RESP, or a reply of another shape than agreed."""


class DataError(PionError):
    """Bytes read through shared memory did not carry their checksum, or a lease ran out meanwhile."""


class ReplyError(PionError):
    """An error reply. ``code`` is its first word, ``text`` the whole line."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text
        self.code = text.split(" ", 1)[0]


class Mismatch(ReplyError):
    """``-MISMATCH``: the model name is in use with another manifest. ``fields`` names the paths."""

    _FIELD = re.compile(r'(?:^|[:,;]\s*)([A-Za-z_][\w.\[\]-]*) is ')

    @property
    def fields(self) -> list[str]:
        """Paths such as ``pools[0].dtype`` or ``type_k``, in the server's order."""
        return self._FIELD.findall(self.text)


class NoModel(ReplyError):
    """``-NOMODEL``: the name was never declared, or was revoked."""


class NoLease(ReplyError):
    """``-NOLEASE``: the lease has run out, is unknown, or belongs to another connection."""


class Corrupt(ReplyError):
    """``-CORRUPT``: stored bytes were damaged. The segment is gone; the next MATCH is shorter."""


class Gap(ReplyError):
    """``-GAP stored up to N``: a PUT began beyond what is stored."""

    @property
    def stored_to(self) -> int:
        """Number of tokens the server does hold of this chain."""
        found = re.search(r"stored up to (\d+)", self.text)
        return int(found.group(1)) if found else 0


class Revoked(ReplyError):
    """``-REVOKED``: the model or the salt was revoked meanwhile."""


class NoRoom(ReplyError):
    """``-OOM`` or ``-MISCONF``: over the budget, all is leased, or the disk is full."""


_BY_CODE: dict[str, type[ReplyError]] = {
    "MISMATCH": Mismatch,
    "NOMODEL": NoModel,
    "NOLEASE": NoLease,
    "CORRUPT": Corrupt,
    "GAP": Gap,
    "REVOKED": Revoked,
    "OOM": NoRoom,
    "MISCONF": NoRoom,
}


def reply_error(text: str) -> ReplyError:
    """The typed exception of an error reply's text (without the leading ``-``)."""
    return _BY_CODE.get(text.split(" ", 1)[0], ReplyError)(text)


class Refused(Exception):
    """A state of the engine that is never stored, or that cannot be restored. Says which and why."""
