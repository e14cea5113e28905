"""Pion: what a model already read is kept by a server and given back to any process.

``pion.client`` talks to the server, ``pion.llama`` and ``pion.mlx`` adapt engines, ``pion.core`` is
what adapters share. Importing this package imports no engine.
"""

from .client import Client
from .engine import Engine, Fork, Report, Reuse
from .errors import Mismatch, PionError, Refused, ReplyError, Unavailable
from .pools import Pool, Want

__all__ = [
    "Client",
    "Engine",
    "Fork",
    "Mismatch",
    "PionError",
    "Pool",
    "Refused",
    "ReplyError",
    "Report",
    "Reuse",
    "Unavailable",
    "Want",
]
__version__ = "0.1.0"
