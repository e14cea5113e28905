#!/usr/bin/env python3
"""Random command streams against pion-server and Redis 8.2: every reply compared, the keyspaces compared at the end.

    tests/differential/run.py --seconds 60 --seed 7

Prints each difference with the commands that touched the same keys before it, and exits with 1 when there was any. What may
differ stands in README.md beside this file; nothing else is forgiven.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from differential.commands import ALL_KEYS, KEYS, Command, Generator  # noqa: E402
from differential.hash_commands import FIELDS  # noqa: E402
from support.resp import Connection, ServerError  # noqa: E402
from support.servers import PionServer, Redis82  # noqa: E402

BATCH = 40
CLOCK_LISTS = {b"HTTL": 1, b"HPTTL": 3000, b"HEXPIRETIME": 1, b"HPEXPIRETIME": 3000}
UNORDERED = {b"KEYS", b"HKEYS", b"HVALS", b"SMEMBERS", b"SINTER", b"SUNION", b"SDIFF"}
CLOCK_COMMANDS = {b"TTL": 1, b"PTTL": 3000, b"EXPIRETIME": 1, b"PEXPIRETIME": 3000}  # tolerance, in the command's unit


class RawConnection(Connection):
    """Also gives a reply's exact bytes, so that a nil array is not a nil string and a double not a bulk.

    `pushes`: the keyspace events that came before the last reply, as (channel, key).
    """

    def __init__(self, port: int, protocol: int):
        self.pushes: list[tuple[bytes, bytes]] = []
        self.reply_at = 0
        super().__init__(port, protocol=protocol)

    def read(self) -> object:
        while True:
            if self.at == len(self.input):
                self._more()
            self.reply_at = self.at
            push = self.input[self.at : self.at + 1] == b">"
            reply = super().read()
            if not push:
                return reply
            assert isinstance(reply, list)
            if reply[0] == b"pmessage" and not reply[2].endswith(b":expired"):
                self.pushes.append((reply[2], reply[3]))

    def read_raw(self) -> tuple[bytes, object]:
        """The next reply: its bytes as they came, and what they mean."""
        self.pushes = []
        self.input = bytearray(self.input[self.at :])
        self.at = 0
        reply = self.read()
        return bytes(self.input[self.reply_at : self.at]), reply

    def listen(self) -> None:
        """Its own commands' keyspace events come behind their replies from here on."""
        self.call("CONFIG", "SET", "notify-keyspace-events", "EAmnoc")
        self.send("PSUBSCRIBE", "__keyevent@*")
        super().read()


@dataclass
class Difference:
    step: int
    command: Command
    ours: bytes
    theirs: bytes
    before: list[str]

    def __str__(self) -> str:
        lines = [f"step {self.step}: {show(self.command)}", f"  pion : {self.ours[:300]!r}", f"  redis: {self.theirs[:300]!r}"]
        return "\n".join(lines + [f"    earlier: {line}" for line in self.before])


@dataclass
class Report:
    commands: int = 0
    differences: list[Difference] = field(default_factory=list)


def show(command: Command) -> str:
    return " ".join(repr(word)[1:] if len(word) < 60 else f"<{len(word)} bytes>" for word in command)


def same(command: Command, ours: tuple[bytes, object], theirs: tuple[bytes, object]) -> bool:
    """Equal but for what clocks, chance and the order of a hash table decide."""
    if ours[0] == theirs[0]:
        return True
    if command[0].upper().startswith((b"Z", b"BZ", b"GEO")) and numbers_as_values(ours[0]) == numbers_as_values(theirs[0]):
        return True
    name, mine, other = command[0].upper(), ours[1], theirs[1]
    if name.startswith((b"GEOSEARCH", b"GEORADIUS")) and isinstance(mine, list) and isinstance(other, list):
        return same_places(mine, other)
    if isinstance(mine, ServerError) or isinstance(other, ServerError) or ours[0][:1] != theirs[0][:1]:
        return False
    if name in CLOCK_COMMANDS and isinstance(mine, int) and isinstance(other, int):
        return mine > 0 and other > 0 and abs(mine - other) <= CLOCK_COMMANDS[name]
    if name == b"OBJECT" and len(command) > 1 and command[1].upper() == b"IDLETIME":
        return isinstance(mine, int) and isinstance(other, int) and abs(mine - other) <= 2
    if name in CLOCK_LISTS and isinstance(mine, list) and isinstance(other, list):
        near = [a == b or (a > 0 and b > 0 and abs(a - b) <= CLOCK_LISTS[name]) for a, b in zip(mine, other)]
        return len(mine) == len(other) and all(near)
    if name in UNORDERED and isinstance(mine, list) and isinstance(other, list):
        return sorted(mine) == sorted(other)
    if name == b"HGETALL":
        return sorted(pairs_of(mine)) == sorted(pairs_of(other))
    if name in (b"HRANDFIELD", b"ZRANDMEMBER"):
        return same_sample(command, mine, other)
    if name in (b"HSCAN", b"ZSCAN") and isinstance(mine, list) and isinstance(other, list):
        novalues = any(word.upper() == b"NOVALUES" for word in command)
        items = [sorted(reply[1] if novalues else pairs_of(reply[1])) for reply in (mine, other)]
        return mine[0] == other[0] and items[0] == items[1]
    if name in (b"XINFO", b"XPENDING"):
        return without_clocks(mine) == without_clocks(other)
    if name in (b"SRANDMEMBER", b"SPOP"):
        return same_members(command, mine, other)
    if name == b"DUMP":
        return mine is not None and other is not None
    if name == b"RANDOMKEY":
        return mine is not None and other is not None
    if name in (b"SCAN", b"SSCAN") and isinstance(mine, list) and isinstance(other, list):
        return mine[0] == other[0] and sorted(mine[1]) == sorted(other[1])
    return False


def numbers_as_values(reply: bytes) -> list[object]:
    """A reply's lines, long fractions as numbers and without their lengths: Redis' printer does not always find the shortest digits."""
    lines: list[object] = []
    for line in reply.split(b"\r\n"):
        if len(line) > 14 and re.fullmatch(rb",?-?\d+\.\d+(e[-+]\d+)?", line):
            if lines and isinstance(lines[-1], bytes) and lines[-1][:1] == b"$":
                lines.pop()
            lines.append(float(line.lstrip(b",")))
        else:
            lines.append(line)
    return lines


def without_clocks(reply: object) -> object:
    """What XINFO or XPENDING answered, without times and durations."""
    if isinstance(reply, dict):
        return {key: "idle" if key in (b"idle", b"inactive") and value != -1 else without_clocks(value) for key, value in reply.items()}
    if isinstance(reply, int):
        return "time" if reply > 10**12 else reply
    if not isinstance(reply, list):
        return reply
    if len(reply) == 4 and isinstance(reply[1], bytes) and isinstance(reply[2], int):  # XPENDING: id, consumer, idle, deliveries
        return [*reply[:2], "idle", reply[3]]
    masked = [i > 0 and reply[i - 1] in (b"idle", b"inactive") and reply[i] != -1 for i in range(len(reply))]
    return ["idle" if mask else without_clocks(item) for mask, item in zip(masked, reply)]


def pairs_of(reply: object) -> list[tuple]:
    """A map, or a flat list of names and values, as pairs."""
    if isinstance(reply, dict):
        return list(reply.items())
    assert isinstance(reply, list)
    return list(zip(reply[::2], reply[1::2]))


def same_sample(command: Command, mine: object, other: object) -> bool:
    """A random choice: as many, of the same shape, and the same ones when all were asked for."""
    if not isinstance(mine, list) or not isinstance(other, list):
        return isinstance(mine, bytes) and isinstance(other, bytes)
    if len(mine) != len(other) or [type(word) for word in mine] != [type(word) for word in other]:
        return False
    if int(command[2]) < 1000:
        return True
    flat = len(command) > 3 and not isinstance(mine[0], list)
    return sorted(pairs_of(mine)) == sorted(pairs_of(other)) if flat else sorted(mine) == sorted(other)


def same_places(mine: list, other: list) -> bool:
    """Places with their distances: those at the same distance in any order, and any of the farthest ones when a COUNT cuts there."""
    if len(mine) != len(other) or not all(isinstance(place, list) for place in mine + other):
        return False
    distances = [place[1] for place in mine]
    tied = {distance for distance in distances if distances.count(distance) > 1} | {distances[-1]}
    return distances == [place[1] for place in other] and all(a == b or a[1] in tied for a, b in zip(mine, other))


def same_members(command: Command, mine: object, other: object) -> bool:
    """As many members, and the same ones when all were asked for."""
    if not isinstance(mine, list) or not isinstance(other, list):
        return isinstance(mine, bytes) and isinstance(other, bytes)
    return len(mine) == len(other) and (int(command[2]) < 1000 or sorted(mine) == sorted(other))


class Comparison:
    def __init__(self, pion_port: int, redis_port: int, seed: int, protocol: int):
        self.pion = RawConnection(pion_port, protocol=protocol)
        self.redis = RawConnection(redis_port, protocol=protocol)
        self.listens = protocol == 3
        if self.listens:
            self.pion.listen()
            self.redis.listen()
        self.generator = Generator(seed)
        self.report = Report()
        self.history: deque[tuple[int, Command]] = deque(maxlen=2000)

    def both(self, commands: list[Command]) -> None:
        """One pipeline to both, replies compared in order."""
        for connection in (self.pion, self.redis):
            connection.send_many(tuple(command) for command in commands)
        for command in commands:
            ours, theirs = self.pion.read_raw(), self.redis.read_raw()
            self.compare_events()
            step = self.report.commands
            self.report.commands += 1
            if not same(command, ours, theirs):
                self.report.differences.append(Difference(step, command, ours[0], theirs[0], self.earlier(command)))
            self.history.append((step, command))
        if self.listens:
            for connection in (self.pion, self.redis):
                connection.send("PING")
                connection.read_raw()
            self.compare_events()

    def compare_events(self) -> None:
        """What the last command told: its events stand in front of the next one's reply."""
        ours, theirs = self.pion.pushes, self.redis.pushes
        if ours == theirs or not self.history:
            return
        step, command = self.history[-1]
        if command[0].upper() in (b"SORT", b"SORT_RO"):  # looks for the keys of its patterns in an order of its own
            ours, theirs = ([push for push in pushes if not push[0].endswith(b":keymiss")] for pushes in (ours, theirs))
            if ours == theirs:
                return
        found = Difference(step, [b"events of", *command], repr(ours).encode(), repr(theirs).encode(), self.earlier(command))
        self.report.differences.append(found)

    def batch(self) -> list[Command]:
        commands: list[Command] = []
        # What belongs together (SPOP and the DEL of what it left) stays in one batch: between batches keyspaces are compared.
        while len(commands) < BATCH or self.generator.pending:
            command = self.generator.next()
            # An expired key counts until somebody meets it; which commands meet one (SCAN here, not there) is no promise.
            if command[0].upper() == b"DBSIZE":
                commands.append([b"EXISTS", *ALL_KEYS])
            commands.append(command)
        return commands

    def earlier(self, command: Command) -> list[str]:
        keys = {word for word in command[1:] if word in ALL_KEYS}
        related = [f"{step}: {show(old)}" for step, old in self.history if keys & set(old[1:]) or old[0].upper() in (b"SELECT", b"SWAPDB")]
        return related[-8:]

    def let_keys_expire(self) -> None:
        """Short expiries at the end of a pipeline, then a pause: afterwards the keys are gone on both sides."""
        r = self.generator.random
        keys = r.sample(KEYS, 3)
        ends: list[Command] = [[b"SET", keys[0], b"x", b"PX", b"5"], [b"PSETEX", keys[1], b"5", b"x"], [b"PEXPIRE", keys[2], b"5"]]
        self.both(ends)
        time.sleep(0.012)
        checks = [b"GET", b"TTL", b"EXISTS", b"TYPE", b"PERSIST", b"STRLEN", b"INCR", b"GETDEL", b"PEXPIRETIME"]
        self.both([[b"KEYS", b"*"]] + [[r.choice(checks), key] for key in keys] + [[b"EXISTS", key] for key in keys])

    def run(self, seconds: float, most: int = 10) -> Report:
        end = time.monotonic() + seconds
        # Otherwise DBSIZE depends on when the two servers sweep.
        self.both([[b"DEBUG", b"SET-ACTIVE-EXPIRE", b"0"], [b"SELECT", b"0"], [b"FLUSHALL"]])
        while time.monotonic() < end and len(self.report.differences) < most:
            self.both(self.batch())
            if self.generator.random.random() < 0.02:
                self.let_keys_expire()
            if self.report.commands % (BATCH * 50) < BATCH:
                self.whole_keyspaces()
        self.whole_keyspaces()
        return self.report

    def whole_keyspaces(self) -> None:
        """Every database: the keys by a walk in small steps, then each key's type, value, encoding and expiry."""
        for database in (b"0", b"1", b"2", b"15"):
            self.both([[b"SELECT", database], [b"EXISTS", *ALL_KEYS], [b"DBSIZE"]])
            walked = [sorted(walk(connection)) for connection in (self.pion, self.redis)]
            if walked[0] != walked[1]:
                found = Difference(self.report.commands, [b"SCAN", b"walk of", database], repr(walked[0]).encode(), repr(walked[1]).encode(), [])
                self.report.differences.append(found)
            for key in walked[1]:
                self.both([[b"TYPE", key], [b"GET", key], [b"OBJECT", b"ENCODING", key], [b"PEXPIRETIME", key], [b"HGETALL", key], [b"SMEMBERS", key]])
                self.both([[b"LRANGE", key, b"0", b"-1"]])
                self.both([[b"ZRANGE", key, b"0", b"-1", b"WITHSCORES"]])
                self.both([[b"XRANGE", key, b"-", b"+"], [b"XINFO", b"STREAM", key, b"FULL", b"COUNT", b"0"]])
                self.both([[b"HPEXPIRETIME", key, b"FIELDS", b"%d" % len(FIELDS), *FIELDS]])
        self.both([[b"SELECT", b"0"]])


def walk(connection: Connection) -> set[bytes]:
    cursor, keys = b"0", set()
    while True:
        cursor, found = connection.call("SCAN", cursor, "COUNT", 5)
        keys.update(found)
        if cursor == b"0":
            return keys


def compare(seconds: float, seed: int, protocol: int) -> Report:
    """Starts both servers, runs one stream, stops them."""
    with PionServer() as pion, Redis82("--enable-debug-command", "yes") as redis:
        return Comparison(pion.port, redis.port, seed, protocol).run(seconds)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--protocol", type=int, choices=(2, 3), action="append", help="2 and 3 when not given")
    arguments = parser.parse_args()
    protocols = arguments.protocol or [2, 3]
    failed = False
    for protocol in protocols:
        report = compare(arguments.seconds / len(protocols), arguments.seed, protocol)
        print(f"RESP{protocol}, seed {arguments.seed}: {report.commands} commands, {len(report.differences)} differences")
        for difference in report.differences:
            print(difference)
        failed = failed or bool(report.differences)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
