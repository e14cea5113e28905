#!/usr/bin/env python3
"""Fetch and PUT of one prompt's K/V over each lane, against what the machine can do with the same bytes in the same run.

    bench/transport.py [--tokens 2048] [--rounds 15]

The model has SmolLM2's shape: 30 layers, K and V rows of 384 bytes, so 2,048 tokens are 47 MB. Limits: memcpy between touched
buffers; a bare loop of send and recv_into between two processes over TCP and over a Unix socket; pwrite into a file of the
same file system; a loop that receives over a Unix socket and writes. Fetches verify every checksum; limits verify nothing.
What a PUT stored is forgotten, and off the disk, before the next one, as the limits cut their files: eviction and the sync behind it
are not measured.
Quartiles stand in brackets.
"""

from __future__ import annotations

import argparse
import ctypes
import multiprocessing
import os
import socket
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "tests"), str(ROOT / "bench")]

from measure import paired, spread, verdict, where  # noqa: E402
from pion.client import Client  # noqa: E402
from pion.pools import Pool, Want  # noqa: E402
from support.servers import PionServer  # noqa: E402

POOL = Pool("attn", layers=30, sides=("k", "v"), row_bytes=384, dtype="f16")
MODEL = "bench"


def touched(size: int) -> np.ndarray:
    """Memory on a page's border, all of it written once. Both sides of every pair copy between such buffers."""
    room = np.empty(size + 4096, dtype=np.uint8)
    buffer = room[-room.ctypes.data % 4096 :][:size]
    buffer[:] = 1
    return buffer


def wants(buffer: np.ndarray, tokens: int) -> list[Want]:
    """Targets that tile `buffer` in the order [layer][side]."""
    view, size = memoryview(buffer), tokens * 384
    runs = [view[i * size : (i + 1) * size] for i in range(60)]
    return [Want(POOL, 0, tokens, [runs[2 * layer : 2 * layer + 2] for layer in range(30)])]


def serve_bytes(listener: socket.socket, size: int) -> None:
    data = touched(size)
    peer, _ = listener.accept()
    while peer.recv(1):
        peer.sendall(data)


def take_and_write(listener: socket.socket, size: int, path: str) -> None:
    """Receives `size` bytes into a 256 KiB buffer, writes each piece, answers; for ever."""
    buffer = memoryview(touched(256 * 1024))
    peer, _ = listener.accept()
    while True:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
        at = 0
        while at < size:
            got = peer.recv_into(buffer[: min(len(buffer), size - at)])
            if not got:
                return
            os.pwrite(fd, buffer[:got], at)
            at += got
        os.close(fd)
        peer.sendall(b"1")


def on_disk(directory: Path) -> int:
    """Bytes that the files below a directory take."""
    return sum(path.stat().st_blocks * 512 for path in directory.rglob("*.dat"))


def bare_peer(family: int, target, *arguments) -> socket.socket:
    """A process on the other end of a bare socket."""
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.bind(("127.0.0.1", 0) if family == socket.AF_INET else tempfile.mktemp(prefix="pion-bench-"))
    listener.listen()
    multiprocessing.get_context("fork").Process(target=target, args=(listener, *arguments), daemon=True).start()
    peer = socket.socket(family, socket.SOCK_STREAM)
    peer.connect(listener.getsockname())
    return peer


def receive(peer: socket.socket, view: memoryview) -> None:
    peer.sendall(b"1")
    at = 0
    while at < len(view):
        at += peer.recv_into(view[at:])


def round_trips(server: PionServer, ids: np.ndarray, want: Want):
    """A fetch's three calls; nothing is read."""
    client = Client(port=server.port, lane="shm")

    def call() -> None:
        lease = client.match(MODEL, ids).lease
        client.command(b"PROMPT.LOCATE", lease, b"POOL", want.pool.name, b"FROM", want.start, b"TO", want.stop, b"UNVERIFIED")
        assert lease is not None and client.release(lease)

    return call


def bench_fetch(server: PionServer, tokens: int, rounds: int) -> bool:
    size = tokens * POOL.token_bytes()
    source, buffer, other = touched(size), touched(size), touched(size)
    source[:] = np.random.default_rng(1).integers(0, 256, size, dtype=np.uint8)
    ids = np.arange(tokens, dtype=np.uint32)
    with Client(port=server.port, lane="unix") as client:
        client.model_set(MODEL, {"weights": "bench", "pools": [POOL.to_json()]})
        client.put(MODEL, ids, 0, {"attn": source})

    def fetcher(lane: str):
        client = Client(port=server.port, lane=lane)
        client.warm()
        assert client.lane == lane, f"asked for lane {lane}, got {client.lane}"
        target = wants(buffer, tokens)

        def fetch() -> None:
            match = client.match(MODEL, ids)
            assert match.matched == tokens and match.lease is not None
            client.read_into(match.lease, target)

        return fetch

    memcpy = ctypes.memmove
    good = True
    for lane, limit, target in [
        ("shm", lambda: memcpy(other.ctypes.data, source.ctypes.data, size), 0.8),
        ("unix", None, 0.9),
        ("tcp", None, 0.9),
    ]:
        if limit is None:
            peer = bare_peer(socket.AF_UNIX if lane == "unix" else socket.AF_INET, serve_bytes, size)
            view = memoryview(other)
            limit = lambda peer=peer, view=view: receive(peer, view)  # noqa: E731
        buffer[:] = 0
        fetch = fetcher(lane)
        name = "fetch, shared memory, against memcpy" if lane == "shm" else f"fetch, {lane}, against a bare socket loop"
        ours_s, limit_s = paired(fetch, limit, rounds)
        good &= verdict(name, ours_s, limit_s, target)
        if lane == "shm":
            calls_s, _ = paired(round_trips(server, ids, wants(buffer, tokens)[0]), limit, rounds)
            rest = statistics.median(limit_s) / (statistics.median(ours_s) - statistics.median(calls_s))
            print(f"    of that MATCH, LOCATE and RELEASE, without reading: {spread(calls_s, 1e3)} ms; reading and checking alone: ratio {rest:.2f}")
        assert np.array_equal(buffer, source), f"lane {lane} brought other bytes"
    return good


def bench_put(server: PionServer, tokens: int, rounds: int, scratch: Path) -> bool:
    payload = scratch / "data" / "payload"
    size = tokens * POOL.token_bytes()
    source = touched(size)
    source[:] = np.random.default_rng(2).integers(0, 256, size, dtype=np.uint8)
    counter = iter(range(1, 1 << 30))
    files = iter(range(1 << 30))

    def pwrite() -> None:
        fd = os.open(scratch / f"limit-{next(files) % 2}", os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
        view, at = memoryview(source), 0
        while at < size:
            at += os.pwrite(fd, view[at:], at)
        os.close(fd)

    stored: list[np.ndarray] = []

    def prompt() -> np.ndarray:
        stored.append(np.arange(tokens, dtype=np.uint32) + np.uint32(next(counter) * 1_000_000))
        return stored[-1]

    def forget() -> None:
        while stored:
            assert by_socket.forget(MODEL, stored.pop()) == tokens
        by_socket.command("WAITAOF", 1, 0, 5000, timeout_s=6)
        # Punching holes locks the file that the next PUT writes to, and then the file system's journal is busy.
        until = time.monotonic() + 3
        while on_disk(payload) > 2 * size and time.monotonic() < until:
            time.sleep(0.002)
        os.sync()

    descriptor = os.memfd_create("bench", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.write(descriptor, source)
    import fcntl

    fcntl.fcntl(descriptor, 1033, 0x2 | 0x4 | 0x8)  # F_ADD_SEALS: shrink, grow, write
    by_descriptor = Client(port=server.port, unix_socket=str(server.socket), lane="unix")
    by_descriptor.ping()

    def put_descriptor() -> None:
        words = [b"PROMPT.PUT", MODEL, prompt().tobytes(), 0, b"POOL", b"attn", b"FD", 0, 0, size]
        reply = by_descriptor._call([words], payload_bytes=size, fds=[descriptor])[0]
        assert not isinstance(reply, Exception), reply

    by_socket = Client(port=server.port, unix_socket=str(server.socket), lane="unix")

    def put_socket() -> None:
        assert by_socket.put(MODEL, prompt(), 0, {"attn": source}).tokens == tokens

    peer = bare_peer(socket.AF_UNIX, take_and_write, size, str(scratch / "limit-loop"))

    def loop() -> None:
        peer.sendall(source)
        assert peer.recv(1)

    good = verdict("PUT by descriptor, against pwrite", *paired(put_descriptor, pwrite, rounds, forget), 0.7)
    return verdict("PUT by Unix socket, against receive and write", *paired(put_socket, loop, rounds, forget), 0.9) & good


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=2048)
    parser.add_argument("--rounds", type=int, default=15)
    arguments = parser.parse_args()
    print(where())
    size = arguments.tokens * POOL.token_bytes()
    print(f"{arguments.tokens} tokens, {size / 1e6:.1f} MB")
    with tempfile.TemporaryDirectory(prefix="pion-bench-", dir=ROOT / "build") as scratch:
        with PionServer("--prompt-budget", str(size * 8), dir=Path(scratch) / "data") as server:
            good = bench_fetch(server, arguments.tokens, arguments.rounds)
            good &= bench_put(server, arguments.tokens, arguments.rounds, Path(scratch))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
