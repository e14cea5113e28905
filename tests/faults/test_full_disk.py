"""A full disk refuses writes, serves reads, frees, restarts, and takes writes again by itself when space returns."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.resp import Connection, ServerError, as_map
from support.servers import PionServer

SIZE_MB = 64


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE_MB}m,mode=0700", "tmpfs", place], capture_output=True)
    if mounted.returncode:
        pytest.skip(f"needs the right to mount a tmpfs: {mounted.stderr.decode().strip()}")
    yield place
    subprocess.run(["umount", "-l", place], check=True)


def fill_until_refused(connection: Connection, size: int, prefix: str) -> tuple[int, str]:
    """Sets keys until one is refused; how many were taken, and the refusal."""
    for i in range(1_000_000):
        connection.send("SET", f"{prefix}{i}", bytes([i % 251]) * size)
        reply = connection.read()
        if isinstance(reply, ServerError):
            return i, str(reply)
    raise AssertionError("the disk never filled")


@pytest.mark.parametrize("size", [1000, 100_000], ids=["in the journal", "in extents"])
def test_refuses_serves_frees_and_recovers(small_disk: Path, size: int) -> None:
    with PionServer("--prompt-budget", "1000000", dir=small_disk / "data") as server, Connection(server.port) as connection:
        taken, refusal = fill_until_refused(connection, size, "k")
        assert refusal.startswith("MISCONF"), refusal
        assert taken * size > SIZE_MB * 1_000_000 // 8, "refused long before the disk was full"

        assert connection.call("GET", "k0") == bytes([0]) * size
        assert connection.call("GET", f"k{taken - 1}") == bytes([(taken - 1) % 251]) * size
        assert connection.call("GET", f"k{taken}") is None, "a refused write must not be seen"
        assert connection.call("DEL", "k1") == 1

        server.kill()
        server.start()
        connection = Connection(server.port)
        assert connection.call("EXISTS", "k0", "k1", "k2") == 2
        assert connection.call("GET", f"k{taken - 1}") == bytes([(taken - 1) % 251]) * size

        connection.send_many([("DEL", f"k{i}") for i in range(taken)])
        assert sum(connection.read() for _ in range(taken)) == taken - 1
        connection.send("SAVE")
        connection.read()
        for attempt in range(200):
            connection.send("SET", "again", b"y" * size)
            if connection.read() == "OK":
                break
            connection.call("DEBUG", "SLEEP", "0.05")
        assert connection.call("GET", "again") == b"y" * size


def test_space_taken_by_others_and_given_back(small_disk: Path) -> None:
    with PionServer("--prompt-budget", "1000000", dir=small_disk / "data") as server, Connection(server.port) as connection:
        assert connection.call("SET", "before", "1") == "OK"
        with open(small_disk / "ballast", "wb") as ballast:
            try:
                while True:
                    ballast.write(bytes(65536))
                    ballast.flush()
            except OSError:
                pass
        taken, refusal = fill_until_refused(connection, 10_000, "k")
        assert refusal.startswith("MISCONF"), refusal
        assert connection.call("GET", "before") == b"1"
        os.remove(small_disk / "ballast")
        for attempt in range(200):
            connection.send("SET", "after", "2")
            if connection.read() == "OK":
                break
            connection.call("DEBUG", "SLEEP", "0.05")
        assert connection.call("GET", "after") == b"2"
        server.kill()
        server.start()
        again = Connection(server.port)
        assert again.call("GET", "after") == b"2"
        assert again.call("EXISTS", *[f"k{i}" for i in range(taken)]) == taken


def test_budget_comes_from_the_directorys_own_disk(small_disk: Path) -> None:
    """A relative, missing directory on a small disk: made first, then its own file system is asked."""
    with PionServer(dir=small_disk / "data") as server, Connection(server.port) as connection:
        budget = as_map(connection.call("PROMPT.INFO"))[b"budget"]
        assert 0 < budget <= SIZE_MB << 20
