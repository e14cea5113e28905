"""Sets of every encoding through kills, and large ones that change while they are read."""

from __future__ import annotations

import random
import threading

import pytest

from support.resp import Connection
from support.servers import PionServer

pytestmark = pytest.mark.wire


def members_of(kind: str) -> set[bytes]:
    r = random.Random(kind)
    if kind == "integers":
        return {b"%d" % r.randint(-(2**40), 2**40) for _ in range(300)}
    if kind == "small":
        return {b"m%d" % i for i in range(100)} | {b"17", b"-3"}
    if kind == "long":
        return {r.randbytes(r.randint(65, 3000)) for _ in range(20)}
    return {b"member:%d" % i for i in range(30_000)}


ENCODINGS = {"integers": b"intset", "small": b"listpack", "long": b"hashtable", "large": b"hashtable"}


def fill(c: Connection, key: str, members: set[bytes]) -> None:
    ordered = sorted(members)
    for at in range(0, len(ordered), 1000):
        c.call("SADD", key, *ordered[at : at + 1000])


def test_sets_come_back_after_a_kill(pion: PionServer) -> None:
    expected = {kind: members_of(kind) for kind in ENCODINGS}
    with Connection(pion.port) as c:
        for kind, members in expected.items():
            for member in sorted(members)[:150]:  # one by one
                assert c.call("SADD", kind, member) == 1
            fill(c, kind, members)
            assert c.call("SCARD", kind) == len(members)
            gone = sorted(members)[::7]
            assert c.call("SREM", kind, *gone, b"nobody") == len(gone)
            members -= set(gone)
            popped = c.call("SPOP", kind, 5)
            assert len(set(popped)) == 5 and set(popped) <= members
            members -= set(popped)
            one = c.call("SPOP", kind)
            members.remove(one)
        c.call("RENAME", "large", "renamed")
        c.call("COPY", "small", "copy")
        c.call("SMOVE", "integers", "long", next(iter(expected["integers"])))
        moved = expected["integers"] - set(c.call("SMEMBERS", "integers"))
        expected["integers"] -= moved
        expected["long"] |= moved
        union = set().union(*expected.values())
        assert c.call("SUNIONSTORE", "union", "integers", "small", "long", "renamed") == len(union)
        assert c.call("SINTERSTORE", "inter", "union", "copy") == len(expected["small"])
        assert c.call("SDIFFSTORE", "diff", "union", "renamed", "integers") == len(union - expected["large"] - expected["integers"])
    expected |= {"copy": expected["small"], "union": union, "inter": expected["small"], "diff": union - expected["large"] - expected["integers"]}
    expected["renamed"] = expected.pop("large")
    pion.restart()
    with Connection(pion.port) as c:
        for key, members in expected.items():
            assert set(c.call("SMEMBERS", key)) == members, key
            assert c.call("TYPE", key) == "set"
        assert {key: c.call("OBJECT", "ENCODING", key) for key in ("integers", "copy", "long", "renamed")} == {
            "integers": b"intset", "copy": b"listpack", "long": b"hashtable", "renamed": b"hashtable"}  # fmt: skip


def test_popping_most_of_a_large_set_makes_it_small_again(pion: PionServer) -> None:
    with Connection(pion.port) as c:
        fill(c, "s", members_of("large"))
        assert c.call("OBJECT", "ENCODING", "s") == b"hashtable"
        popped = c.call("SPOP", "s", 29_950)
        left = c.call("SMEMBERS", "s")
        assert c.call("OBJECT", "ENCODING", "s") == b"listpack"
        assert len(left) == 50 and len(set(popped)) == 29_950 and not set(left) & set(popped)
        assert sorted(c.call("SPOP", "s", 50)) == sorted(left)
        assert c.call("EXISTS", "s") == 0


def test_random_members_are_spread_evenly(pion: PionServer) -> None:
    with Connection(pion.port) as c:
        for key, size in (("a", 10), ("b", 1000)):
            c.call("SADD", key, *(f"m{i}" for i in range(size)))
            counts: dict[bytes, int] = {}
            for member in c.call("SRANDMEMBER", key, -100 * size):
                counts[member] = counts.get(member, 0) + 1
            # 100 expected of each; eight standard deviations.
            assert len(counts) == size and min(counts.values()) > 20 and max(counts.values()) < 180
            assert len(set(c.call("SRANDMEMBER", key, size // 2))) == size // 2


def test_a_scan_meets_every_member_that_stays(pion: PionServer) -> None:
    stay = {b"stay:%d" % i for i in range(2000)}
    with Connection(pion.port) as c:
        fill(c, "s", stay)
        seen: set[bytes] = set()
        cursor, round_ = b"0", 0
        while True:
            cursor, found = c.call("SSCAN", "s", cursor, "COUNT", 20)
            seen.update(found)
            if cursor == b"0":
                break
            round_ += 1
            extra = [f"extra:{round_ % 40}:{i}" for i in range(200)]
            c.call("SADD" if round_ % 80 < 40 else "SREM", "s", *extra)  # grows and shrinks the table
        assert stay <= seen


@pytest.mark.parametrize("command", ["SUNION", "SINTER", "SDIFF", "SMEMBERS", "SUNIONSTORE"])
def test_a_large_set_is_read_as_it_was_at_one_moment(pion: PionServer, command: str) -> None:
    """A writer moves one token through the set in MULTI-free single commands: SMOVE between two sets, so that the token is always
    in exactly one of them; a reader of both must see it in exactly one."""
    base = members_of("large")
    with Connection(pion.port) as c:
        fill(c, "a", base)
        fill(c, "b", {b"other:%d" % i for i in range(20_000)})
        for i in range(200):
            c.call("SADD", "a", f"token:{i}")
    stop = threading.Event()

    def move() -> None:
        with Connection(pion.port) as mine:
            while not stop.is_set():
                for source, target in (("a", "b"), ("b", "a")):
                    mine.send_many(("SMOVE", source, target, f"token:{i}") for i in range(200))
                    for _ in range(200):
                        mine.read()

    mover = threading.Thread(target=move)
    mover.start()
    try:
        with Connection(pion.port) as c:
            for _ in range(15):
                if command == "SUNION":
                    found = c.call("SUNION", "a", "b")
                    assert len(found) == len(set(found)) == 50_200
                elif command == "SUNIONSTORE":
                    assert c.call("SUNIONSTORE", "to", "a", "b") == 50_200
                    assert c.call("SCARD", "to") == 50_200
                elif command == "SINTER":
                    assert c.call("SINTER", "a", "b") == []
                elif command == "SDIFF":
                    found = c.call("SDIFF", "a", "b")
                    assert base <= set(found) and len(found) == len(set(found))
                    assert all(member.startswith(b"token:") for member in set(found) - base)
                else:
                    found = c.call("SMEMBERS", "a")
                    assert len(found) == len(set(found)) and base <= set(found)
    finally:
        stop.set()
        mover.join()


def test_a_set_that_goes_away_while_it_is_read(pion: PionServer) -> None:
    base = members_of("large")
    with Connection(pion.port) as c:
        fill(c, "a", base)
    stop = threading.Event()

    def rename() -> None:
        with Connection(pion.port) as mine:
            while not stop.is_set():
                for command in (("RENAME", "a", "b"), ("RENAME", "b", "a"), ("COPY", "a", "c", "REPLACE"), ("DEL", "a"), ("RENAME", "c", "a")):
                    mine.call(*command)

    renamer = threading.Thread(target=rename)
    renamer.start()
    try:
        with Connection(pion.port) as c:
            for _ in range(20):
                found = c.call("SUNION", "a", "b")
                assert set(found) in (base, set())
    finally:
        stop.set()
        renamer.join()
