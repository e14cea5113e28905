"""Random commands: the string and key families here, a module for each other type beside this one; valid and not, few keys so that they meet, values where encodings change."""

from __future__ import annotations

import random

from differential import (
    bit_commands, dump_commands, geo_commands, hash_commands, list_commands, set_commands, sort_commands, stream_commands, zset_commands,
)  # fmt: skip

Command = list[bytes]

KEYS = [b"k%d" % i for i in range(12)] + [b"key:" + b"x" * 30, b"", b"a\r\nb", b"{tag}\x00z"]
LCS_KEYS = [b"lcs:0", b"lcs:1", b"lcs:2", b"lcs:none"]
LIMITS = [2**63 - 1, -(2**63), 2**63, -(2**63) - 1, 2**31, -(2**31), 2**32, 0, 1, -1]
WORDS = [b"", b" 1", b"1 ", b"+1", b"01", b"-0", b"1.5", b"abc", b"0x10", b"1e3", b"nan", b"inf", b"9" * 25]
FLOATS = [
    b"0.1", b"-1.5", b"1e-10", b"3.0e3", b"828582.7", b"1e400", b"4.9e-324", b"1e17", b"123456789.123456789", b"-0.0", b"0x1p3",
    b".5", b"5.", b"1e5000", b"-inf", b"nan", b"1e", b" 1", b"infinity", b"1_0", b"3.14159265358979323846",
]  # fmt: skip
DATABASES = [b"0", b"1", b"15", b"16", b"-1", b"x", b"99999999999"]
LARGE_BYTES = 70_000  # streams to disk
SHARED_KEYS = [  # met by commands of every type
    *KEYS, *LCS_KEYS, *bit_commands.KEYS, *hash_commands.KEYS, *list_commands.KEYS, *set_commands.KEYS, *stream_commands.KEYS,
    *zset_commands.KEYS, *geo_commands.KEYS, *sort_commands.KEYS,
]  # fmt: skip
ALL_KEYS = [*SHARED_KEYS, *zset_commands.LEX_KEYS, *sort_commands.OTHERS]


class Generator:
    """Commands from a seed. `large` also makes values of 64 KiB and more."""

    FLOATS = FLOATS

    def __init__(self, seed: int, large: bool = True):
        self.random = random.Random(seed)
        self.large = large
        self.pending: list[Command] = []  # to be sent next
        self.families = [
            bit_commands.BitCommands(self), geo_commands.GeoCommands(self), hash_commands.HashCommands(self), list_commands.ListCommands(self),
            set_commands.SetCommands(self), sort_commands.SortCommands(self), stream_commands.StreamCommands(self),
            zset_commands.SortedSetCommands(self), dump_commands.DumpCommands(self),
        ]  # fmt: skip

    def key(self) -> bytes:
        return self.random.choice(KEYS if self.random.random() < 0.94 else SHARED_KEYS)

    def integer(self) -> bytes:
        r = self.random
        kind = r.random()
        if kind < 0.6:
            return b"%d" % r.randint(-20, 120)
        if kind < 0.75:
            return b"%d" % r.choice(LIMITS)
        if kind < 0.9:
            return b"%d" % r.randint(-(2**63), 2**63 - 1)
        return r.choice(WORDS)

    def value(self) -> bytes:
        r = self.random
        kind = r.random()
        if kind < 0.25:
            return self.integer()
        if kind < 0.35:
            return r.choice(FLOATS)
        if kind < 0.7:
            return r.choice([b"a", b"b", b"xyz"]) * r.randint(0, 16)
        if kind < 0.8:
            return b"v" * r.randint(20, 50)
        if kind < 0.9:
            return r.randbytes(r.choice([1, 7, 44, 45, 200, 440, 441, 1000]))
        if kind < 0.98 or not self.large:
            return r.randbytes(r.randint(0, 3000))
        return r.randbytes(LARGE_BYTES + r.randint(-5000, 5000))

    def expiry(self) -> bytes:
        """A relative time that does not pass during a run, or an invalid one."""
        r = self.random
        return b"%d" % r.randint(10_000_000, 20_000_000) if r.random() < 0.8 else r.choice([b"0", b"-1", b"%d" % 2**62, b"%d" % 2**63, b"x", b""])

    def unix_time(self, milliseconds: bool) -> bytes:
        r = self.random
        kind = r.random()
        if kind < 0.75:
            seconds = 4_000_000_000 + r.randint(0, 1000)
            return b"%d" % (seconds * 1000 + r.randint(0, 999) if milliseconds else seconds)
        return r.choice([b"1", b"1000000000", b"0", b"-5", b"x", b"%d" % (2**63 - 1), b"%d" % -(2**63), b"9223372036854776"])

    def case(self, word: bytes) -> bytes:
        return word if self.random.random() < 0.8 else word.lower()

    def expire_option(self) -> list[bytes]:
        word = self.random.choice([b"EX", b"PX", b"EXAT", b"PXAT"])
        number = self.expiry() if len(word) == 2 else self.unix_time(word == b"PXAT")
        return [self.case(word), number]

    # ---- string commands ----

    def set(self) -> Command:
        r = self.random
        command = [b"SET", self.key(), self.value()]
        while r.random() < 0.35:
            option = r.choice([b"NX", b"XX", b"GET", b"KEEPTTL", b"ttl", b"ttl", b"PERSIST", b"BAD"] if r.random() < 0.9 else [b"EX", b"PX"])
            command += self.expire_option() if option == b"ttl" else [self.case(option)]
        return command

    def getex(self) -> Command:
        r = self.random
        command = [b"GETEX", self.key()]
        while r.random() < 0.6 and len(command) < 7:
            option = r.choice([b"ttl", b"ttl", b"PERSIST", b"NX", b"KEEPTTL", b"EX"])
            command += self.expire_option() if option == b"ttl" else [option]
        return command

    def setex(self) -> Command:
        return [self.random.choice([b"SETEX", b"PSETEX"]), self.key(), self.expiry(), self.value()]

    def key_and_value(self) -> Command:
        return [self.random.choice([b"SETNX", b"GETSET", b"APPEND"]), self.key(), self.value()]

    def one_key(self) -> Command:
        names = [b"GET", b"GETDEL", b"STRLEN", b"INCR", b"DECR", b"TYPE", b"TTL", b"PTTL", b"EXPIRETIME", b"PEXPIRETIME", b"PERSIST", b"GET", b"GET"]
        return [self.random.choice(names), self.key()]

    def increment(self) -> Command:
        return [self.random.choice([b"INCRBY", b"DECRBY"]), self.key(), self.integer()]

    def incrbyfloat(self) -> Command:
        return [b"INCRBYFLOAT", self.key(), self.random.choice([*FLOATS, self.integer()])]

    def range(self) -> Command:
        return [self.random.choice([b"GETRANGE", b"GETRANGE", b"SUBSTR"]), self.key(), self.integer(), self.integer()]

    def setrange(self) -> Command:
        offset = self.integer()
        # A legal offset near the limit would make both sides hold half a gigabyte.
        if offset.isdigit() and 5000 < int(offset) < 2**29 + 1:
            offset = b"3000"
        return [b"SETRANGE", self.key(), offset, self.value() if self.random.random() < 0.8 else b""]

    def mget(self) -> Command:
        return [b"MGET"] + [self.key() for _ in range(self.random.randint(1, 5))]

    def mset(self) -> Command:
        command = [self.random.choice([b"MSET", b"MSETNX"])]
        for _ in range(self.random.randint(1, 3)):
            command += [self.key(), self.value()]
        return command

    def lcs(self) -> Command:
        # Keys of its own: on values of tens of kilobytes both servers would compute for seconds.
        r = self.random
        if r.random() < 0.4:
            return [b"SET", r.choice(LCS_KEYS), bytes(r.choices(b"abc", k=r.randint(0, 60)))]
        command = [b"LCS", r.choice(LCS_KEYS), r.choice(LCS_KEYS)]
        while r.random() < 0.5:
            option = r.choice([b"LEN", b"IDX", b"IDX", b"WITHMATCHLEN", b"MINMATCHLEN", b"BAD"])
            command += [self.case(option)] + ([self.integer()] if option == b"MINMATCHLEN" and r.random() < 0.9 else [])
        return command

    # ---- key commands ----

    def many_keys(self) -> Command:
        name = self.random.choice([b"DEL", b"UNLINK", b"EXISTS", b"TOUCH", b"EXISTS"])
        return [name] + [self.key() for _ in range(self.random.randint(1, 3))]

    def expire(self) -> Command:
        r = self.random
        name = r.choice([b"EXPIRE", b"PEXPIRE", b"EXPIREAT", b"PEXPIREAT"])
        command = [name, self.key(), self.unix_time(name == b"PEXPIREAT") if name.endswith(b"AT") else self.expiry()]
        while r.random() < 0.35:
            command.append(self.case(r.choice([b"NX", b"XX", b"GT", b"LT", b"ZZ"])))
        return command

    def rename(self) -> Command:
        return [self.random.choice([b"RENAME", b"RENAMENX"]), self.key(), self.key()]

    def copy(self) -> Command:
        r = self.random
        command = [b"COPY", self.key(), self.key()]
        while r.random() < 0.5:
            option = r.choice([b"REPLACE", b"DB", b"BAD"] if r.random() < 0.3 else [b"REPLACE", b"DB"])
            command += [self.case(option)] + ([r.choice(DATABASES)] if option == b"DB" and r.random() < 0.95 else [])
        return command

    def move(self) -> Command:
        return [b"MOVE", self.key(), self.random.choice(DATABASES)]

    def object(self) -> Command:
        r = self.random
        if r.random() < 0.05:
            return [b"OBJECT", r.choice([b"HELP", b"NOSUCH", b"ENCODING"])]
        return [b"OBJECT", r.choice([b"ENCODING", b"ENCODING", b"ENCODING", b"REFCOUNT", b"FREQ", b"IDLETIME"]), self.key()]

    def pattern(self) -> bytes:
        patterns = [b"*", b"k*", b"k?", b"k[1-3]", b"k[^1-3]", b"*1", b"k1", b"k[1", b"k\\1", b"", b"*[0-9]*", b"k[3-1]", b"[", b"*\r\n*", b"\\", b"k1\\"]
        return self.random.choice(patterns)

    def keys(self) -> Command:
        return [b"KEYS", self.pattern()]

    def scan(self) -> Command:
        """Either a whole walk in one call, or something that is wrong."""
        r = self.random
        command = [b"SCAN", b"0" if r.random() < 0.8 else r.choice([b"x", b" 0", b"0 ", b"-1", b"+0", b"00", b"99999999999999999999999", b""])]
        command += [b"COUNT", b"1000000"]
        while r.random() < 0.5:
            option = r.choice([b"MATCH", b"TYPE", b"MATCH", b"NOVALUES", b"BAD", b"COUNT"] if r.random() < 0.3 else [b"MATCH", b"TYPE"])
            command.append(self.case(option))
            if option == b"MATCH":
                command.append(self.pattern())
            elif option == b"TYPE":
                command.append(r.choice([b"string", b"STRING", b"list", b"hash", b"zset", b"set", b"stream", b"nosuch", b""]))
            elif option == b"COUNT" and r.random() < 0.8:
                command.append(r.choice([b"0", b"-1", b"x", b"1000000"]))
        return command

    def database(self) -> Command:
        r = self.random
        kind = r.random()
        if kind < 0.3:
            return [b"DBSIZE"]
        if kind < 0.6:
            return [b"RANDOMKEY"]
        if kind < 0.9:
            return [b"SELECT", r.choice([b"0", b"0", b"0", b"1", b"2", *DATABASES])]
        if kind < 0.94:
            return [b"SWAPDB", r.choice([b"0", b"1", *DATABASES]), r.choice([b"0", b"1", *DATABASES])]
        command = [r.choice([b"FLUSHDB", b"FLUSHDB", b"FLUSHALL"])]
        return command + r.choice([[], [], [b"ASYNC"], [b"sync"], [b"BAD"], [b"ASYNC", b"SYNC"]])

    def spoiled(self, command: Command) -> Command:
        """One argument fewer or more, or another one twice."""
        r = self.random
        if command[0] in (b"HRANDFIELD", b"SRANDMEMBER", b"ZRANDMEMBER", b"SPOP"):
            return command  # Redis would draw 2^60 elements, or other ones than the run can follow
        if command[0].startswith((b"B", b"XREAD")) and not command[0].startswith(b"BIT"):
            return command  # what comes last may then be a time-out, and 0 waits for ever
        if command[0].startswith(b"GEO") and b"WITHDIST" in command:
            return command  # without the distances nobody sees which places are equally far away
        at = r.randint(1, len(command))
        kind = r.random()
        if kind < 0.4 and len(command) > 1:
            return command[: at - 1] + command[at:] if at > 1 else command[:-1]
        extra = r.choice([b"extra", self.key(), self.integer()])
        return command[:at] + [extra] + command[at:]

    def next(self) -> Command:
        if self.pending:
            return self.pending.pop(0)
        r = self.random
        makers = [
            (self.set, 16), (self.getex, 5), (self.setex, 4), (self.key_and_value, 10), (self.one_key, 16), (self.increment, 6),
            (self.incrbyfloat, 4), (self.range, 6), (self.setrange, 5), (self.mget, 3), (self.mset, 4), (self.lcs, 4),
            (self.many_keys, 8), (self.expire, 10), (self.rename, 5), (self.copy, 5), (self.move, 3), (self.object, 8), (self.keys, 3),
            (self.scan, 3), (self.database, 4),
        ]  # fmt: skip
        for family in self.families:
            makers += family.makers()
        maker = r.choices([m for m, _ in makers], [w for _, w in makers])[0]
        command = maker()
        if r.random() < 0.03:
            command = self.spoiled(command)
        command[0] = self.case(command[0])
        if r.random() < 0.03:  # not run; what it would touch
            command = [b"COMMAND", r.choice([b"GETKEYS", b"GETKEYSANDFLAGS"]), *command]
        return command
