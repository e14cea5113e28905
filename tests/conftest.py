"""Fixtures for every test that needs a running server."""

from __future__ import annotations

import resource
from typing import Any, Callable, Iterator

import pytest

from support.servers import PionServer, Redis82


_setrlimit = resource.setrlimit


def _never_fewer_files(which: int, limits: Any) -> None:
    """mlx_lm, when imported, cuts the open files of the whole process, and so of every server the tests start."""
    if which != resource.RLIMIT_NOFILE or limits[1] >= resource.getrlimit(which)[1]:
        _setrlimit(which, limits)


resource.setrlimit = _never_fewer_files


@pytest.fixture
def pion_factory() -> Iterator[Callable[..., PionServer]]:
    """Starts pion-servers: `pion_factory("-w", "2", dir=..., env=...)`; all end with the test.

    When the test failed, the end of each server's log is printed.
    """
    started: list[PionServer] = []

    def make(*args: str, **options: object) -> PionServer:
        server = PionServer(*args, **options)
        started.append(server)
        return server.start()

    yield make
    for server in started:
        print(f"--- log of {server.command()}\n{server.log_tail()}")
        server.close()


@pytest.fixture
def pion(pion_factory: Callable[..., PionServer]) -> PionServer:
    """A fresh pion-server for one test."""
    return pion_factory()


@pytest.fixture(scope="module")
def pion_shared() -> Iterator[PionServer]:
    """One pion-server for all tests of a module; they must use keys of their own or flush."""
    with PionServer() as server:
        yield server


@pytest.fixture(scope="module")
def redis82() -> Iterator[Redis82]:
    """Redis 8.2, the oracle of replies, for all tests of a module."""
    with Redis82() as server:
        yield server
