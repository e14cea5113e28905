"""What one client, or ten thousand, can make the server hold: buffers, connections, descriptors."""

from __future__ import annotations

import array
import os
import resource
import socket
import threading
import time
from typing import Callable

import pytest

from support.resp import Connection, encode
from support.servers import PionServer, is_sanitized

pytestmark = pytest.mark.wire

MIB = 1 << 20


def memory(server: PionServer) -> int:
    """Resident bytes of the server. A sanitizer's own (shadow, red zones, freed blocks kept aside) are divided out, roughly."""
    with open(f"/proc/{server.pid}/statm") as statm:
        resident = int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return resident // 4 if is_sanitized(server.pid) else resident


def descriptors(server: PionServer) -> int:
    return len(os.listdir(f"/proc/{server.pid}/fd"))


def wait_until(condition: Callable[[], bool], what: str, timeout_s: float = 30.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {timeout_s} s: {what}"
        time.sleep(0.01)


def client_fields(connection: Connection, name: str) -> dict[str, str] | None:
    """The CLIENT LIST line of the client with this name."""
    for line in connection.call("CLIENT", "LIST").decode().splitlines():
        fields = dict(field.partition("=")[::2] for field in line.split(" "))
        if fields["name"] == name:
            return fields
    return None


def test_a_client_that_does_not_read_is_not_read_from(pion: PionServer) -> None:
    with Connection(pion.port) as other, Connection(pion.port) as slow:
        slow.call("CLIENT", "SETNAME", "slow")
        before = memory(pion)
        slow.socket.setblocking(False)
        request = encode(["ECHO", b"x" * 60_000])
        sent = 0
        try:
            while sent < 256 * MIB:
                sent += slow.socket.send(request[sent % len(request) :])
        except BlockingIOError:
            pass
        assert sent < 256 * MIB, "the server read all of it"
        fields = client_fields(other, "slow")
        assert fields is not None and 0 < int(fields["omem"]) < 6 * MIB
        assert memory(pion) - before < 32 * MIB
        # It is served again when it reads: everything, in order.
        slow.socket.settimeout(60)
        rest = request[sent % len(request) :] if sent % len(request) else b""
        sender = threading.Thread(target=slow.socket.sendall, args=(rest + encode(["PING"]),))
        sender.start()
        for _ in range(-(-sent // len(request))):
            assert slow.read() == b"x" * 60_000
        assert slow.read() == "PONG"
        sender.join()


def test_replies_from_files_wait_for_the_reader_too(pion: PionServer) -> None:
    payload = os.urandom(3 * MIB)
    with Connection(pion.port) as client:
        client.call("SET", "big", payload)
        client.send_many([("GET", "big")] * 40 + [("PING",)])
        time.sleep(0.1)
        for _ in range(40):
            assert client.read() == payload
        assert client.read() == "PONG"


def test_announced_lengths_take_no_memory(pion: PionServer) -> None:
    before = memory(pion)
    clients = [Connection(pion.port) for _ in range(50)]
    for client in clients:
        client.socket.sendall(b"*2147483647\r\n$536870912\r\nabc")
    with Connection(pion.port) as other:
        assert other.call("PING") == "PONG"
    assert memory(pion) - before < 32 * MIB
    for client in clients:
        client.close()


def test_a_value_on_its_way_to_disk_takes_one_small_buffer(pion: PionServer) -> None:
    size, piece = 128 * MIB, os.urandom(MIB)
    with Connection(pion.port) as client:
        client.call("SET", "warm", b"x" * 100_000)
        before = memory(pion)
        client.socket.sendall(b"*3\r\n$3\r\nSET\r\n$3\r\nbig\r\n$%d\r\n" % size)
        for _ in range(size // len(piece)):
            client.socket.sendall(piece)
        assert memory(pion) - before < 8 * MIB
        client.socket.sendall(b"\r\n")
        assert client.read() == "OK"
        assert client.call("STRLEN", "big") == size
        assert client.call("GETRANGE", "big", size - 10, -1) == piece[-10:]


def test_a_half_sent_value_leaves_nothing(pion: PionServer) -> None:
    client = Connection(pion.port)
    client.socket.sendall(b"*3\r\n$3\r\nSET\r\n$3\r\nbig\r\n$100000000\r\n" + b"x" * MIB)
    with Connection(pion.port) as other:
        wait_until(lambda: other.call("CLIENT", "LIST").count(b"tot-net-in=10486") == 1, "the bytes arrive")
        client.close()
        wait_until(lambda: other.call("CLIENT", "LIST").count(b"\n") == 1, "the client is gone")
        assert other.call("EXISTS", "big") == 0


def test_512_mib_and_one_byte_is_refused(pion: PionServer) -> None:
    with Connection(pion.port) as client:
        client.socket.sendall(b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$536870913\r\n")
        assert str(client.read()) == "ERR Protocol error: invalid bulk length"


def test_max_clients(pion_factory: Callable[..., PionServer]) -> None:
    server = pion_factory("--maxclients", "3")
    with Connection(server.port) as a:
        wait_until(lambda: a.call("CLIENT", "LIST").count(b"\n") == 1, "the one that asked whether we are there left")
        with Connection(server.port) as b, Connection(server.port) as c:
            assert [x.call("PING") for x in (a, b, c)] == ["PONG"] * 3
            with Connection(server.port) as d:
                assert str(d.read()) == "ERR max number of clients reached"
        wait_until(lambda: a.call("CLIENT", "LIST").count(b"\n") == 1, "two left")
        with Connection(server.port) as e:
            assert e.call("PING") == "PONG"


def test_ten_thousand_connections(pion: PionServer) -> None:
    wanted = 10_000
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted + 500), max(hard, wanted + 500)))
    except (ValueError, PermissionError):
        pytest.skip("this user may not open so many files")
    clients: list[socket.socket] = []
    try:
        with Connection(pion.port) as first:
            first.call("SET", "k", "v")
            before = memory(pion)
            for _ in range(wanted - 1):
                client = socket.socket(socket.AF_UNIX)  # TCP would run out of ports in repeated runs
                client.connect(str(pion.socket))
                clients.append(client)
            request = encode(["GET", "k"])
            for client in clients:
                client.sendall(request)
            for client in clients:
                client.settimeout(60)
                assert client.recv(64) == b"$1\r\nv\r\n"
            assert b"connected_clients:10000\r\n" in first.call("INFO", "clients")
            assert (memory(pion) - before) / wanted < 8 * 1024
        for client in clients:
            client.close()
        with Connection(pion.port) as last:
            wait_until(lambda: b"connected_clients:1\r\n" in last.call("INFO", "clients"), "all are gone")
    finally:
        for client in clients:
            client.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_an_idle_client_is_closed_and_a_busy_one_is_not(pion_factory: Callable[..., PionServer]) -> None:
    server = pion_factory("--timeout", "1")
    with Connection(server.port) as idle, Connection(server.port) as busy:
        idle.socket.setblocking(False)

        def closed() -> bool:
            assert busy.call("PING") == "PONG"
            try:
                return idle.socket.recv(1) == b""
            except BlockingIOError:
                return False

        wait_until(closed, "the idle one is closed")


def test_a_client_that_kills_itself_has_its_answer(pion: PionServer) -> None:
    with Connection(pion.port) as a, Connection(pion.port) as b:
        killed = b.call("CLIENT", "ID")
        assert a.call("CLIENT", "KILL", "ID", killed) == 1
        with pytest.raises((ConnectionError, OSError)):
            b.call("PING")
        assert a.call("CLIENT", "KILL", "ID", a.call("CLIENT", "ID"), "SKIPME", "no") == 1
        with pytest.raises((ConnectionError, OSError)):
            a.call("PING")


def send_descriptors(client: Connection, data: bytes, fds: list[int]) -> None:
    client.socket.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))])


def test_descriptors_nobody_takes_are_closed(pion: PionServer) -> None:
    with Connection(path=str(pion.socket)) as client:
        client.call("PING")
        before = descriptors(pion)
        for _ in range(20):
            read_end, write_end = os.pipe()
            send_descriptors(client, encode(["PING"]) * 3, [read_end, write_end])
            os.close(write_end)
            for _ in range(3):
                assert client.read() == "PONG"
            assert os.read(read_end, 1) == b"", "the server holds the other end"
            os.close(read_end)
        assert descriptors(pion) == before


def test_more_descriptors_than_allowed_end_the_connection(pion: PionServer) -> None:
    with Connection(pion.port) as other, Connection(path=str(pion.socket)) as client:
        client.call("PING")
        before = descriptors(pion)
        null = os.open("/dev/null", os.O_RDONLY)
        try:
            with pytest.raises((ConnectionError, OSError)):
                for _ in range(4):  # of one command that never ends
                    send_descriptors(client, b"*2\r\n" if _ == 0 else b"$", [null] * 40)
                client.read()
        finally:
            os.close(null)
        wait_until(lambda: other.call("PING") == "PONG" and descriptors(pion) < before, "all are closed")
