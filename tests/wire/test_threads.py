"""Clients on several reactor threads, and on their way from one to another."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Callable

import pytest

from support.resp import Connection, encode
from support.servers import PionServer

pytestmark = pytest.mark.wire


def reactor_ticks(server: PionServer) -> dict[str, int]:
    """CPU time of each reactor thread, in clock ticks."""
    ticks = {}
    for task in Path(f"/proc/{server.pid}/task").iterdir():
        name, _, fields = (task / "stat").read_text().partition("(")[2].rpartition(")")
        if name.startswith("pion-io-"):
            ticks[name] = int(fields.split()[11]) + int(fields.split()[12])
    return ticks


def test_busy_clients_spread_over_the_threads_and_lose_nothing(pion_factory: Callable[..., PionServer]) -> None:
    server = pion_factory("-w", "3")
    clients, rounds = 6, [0] * 6
    stop = threading.Event()
    failures: list[str] = []

    def hammer(number: int) -> None:
        """Pipelines of INCR whose replies must be the next numbers, until told to stop."""
        try:
            with Connection(server.port, timeout_s=120) as client:
                client.call("CLIENT", "SETNAME", f"hammer{number}")
                batch = encode(["INCR", f"counter{number}"]) * 500
                while not stop.is_set():
                    client.socket.sendall(batch)
                    for i in range(500):
                        reply = client.read()
                        if reply != rounds[number] * 500 + i + 1:
                            failures.append(f"{number}: {reply!r} after {rounds[number]} rounds and {i}")
                            return
                    rounds[number] += 1
        except Exception as error:  # a thread must tell the test
            failures.append(f"{number}: {error!r}")

    threads = [threading.Thread(target=hammer, args=(i,)) for i in range(clients)]
    # Loads the server more than Python clients can: requests sent as fast as they go, replies thrown away.
    flood = [Connection(server.port, timeout_s=120) for _ in range(4)]

    def send_flood(client: Connection) -> None:
        batch = encode(["GET", "counter0"]) * 2000
        try:
            while not stop.is_set():
                client.socket.sendall(batch)
        except OSError:
            pass

    def drain_flood(client: Connection) -> None:
        try:
            while client.socket.recv(1 << 20):
                pass
        except OSError:
            pass

    threads += [threading.Thread(target=call, args=(c,)) for c in flood for call in (send_flood, drain_flood)]
    for thread in threads:
        thread.start()
    try:
        with Connection(server.port, timeout_s=120) as other:
            deadline = time.monotonic() + 60
            while sum(ticks > os.sysconf("SC_CLK_TCK") // 10 for ticks in reactor_ticks(server).values()) < 2:
                assert time.monotonic() < deadline, f"all stayed on one thread: {reactor_ticks(server)}"
                assert not failures, failures
                names = [line for line in other.call("CLIENT", "LIST").decode().splitlines() if "name=hammer" in line]
                assert len(names) <= clients
                time.sleep(0.02)
            listed = other.call("CLIENT", "LIST").decode()
            assert all(listed.count(f"name=hammer{i} ") == 1 for i in range(clients)), listed
    finally:
        stop.set()
        time.sleep(0.05)
        for client in flood:
            client.socket.shutdown(2)
        for thread in threads:
            thread.join()
        for client in flood:
            client.close()
    assert not failures, failures
    with Connection(server.port) as last:
        assert [int(last.call("GET", f"counter{i}") or 0) for i in range(clients)] == [500 * r for r in rounds]
