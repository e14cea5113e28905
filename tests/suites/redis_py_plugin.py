"""What redis-py's own tests need here: loaded into their pytest by redis_py.py.

Their fixture traces every allocation, which makes a failure's report take a second. Their asynchronous tests all run twice, over a pool
and over a single connection; a server sees no difference. Some want a server at Redis' own port: they get ours, not one that a person
may have there.
"""

from __future__ import annotations

import socket
import tracemalloc
from typing import Any
from urllib.parse import urlparse

import pytest
from redis.asyncio.connection import Connection

REDIS_PORT = 6379

tracemalloc.start = lambda *_: None


def pytest_configure(config: pytest.Config) -> None:
    ours = urlparse(config.getoption("--redis-url")).port
    addresses, arguments = socket.getaddrinfo, Connection._connection_arguments

    def addresses_of_ours(host: Any, port: Any, *rest: Any, **more: Any) -> Any:
        return addresses(host, ours if port == REDIS_PORT else port, *rest, **more)

    def arguments_of_ours(connection: Connection) -> dict[str, Any]:
        told = dict(arguments(connection))
        return {**told, "port": ours} if told.get("port") == REDIS_PORT else told

    socket.getaddrinfo = addresses_of_ours
    Connection._connection_arguments = arguments_of_ours


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    twice = [item for item in items if "test_asyncio" in item.nodeid and "single" in getattr(getattr(item, "callspec", None), "id", "").split("-")]
    config.hook.pytest_deselected(items=twice)
    items[:] = [item for item in items if item not in set(twice)]
