"""Keyspace notifications: every write command's events are those of Redis 8.2.3, in its order; they follow the journal; limits hold."""

from __future__ import annotations

import re
import shlex
import threading
import time
from typing import Callable, Iterator

import pytest

from support.resp import Connection, ServerError
from support.servers import PionServer, Redis82

pytestmark = pytest.mark.wire

# Each list on an empty keyspace; after each line the events are compared. What pion-server does not know yet is left out on both sides.
SCENARIOS = {
    "strings": """
        SET k v|SET k w|SET k w NX|SET k w XX|SET k w XX KEEPTTL|SET k w GET|SET k w EX 100|SET k w GET PX 100000|SET n w XX|SET n w GET
        SET n w EXAT 1|SET n w PXAT 1|SET n w|SETNX k v|SETNX s v|SETEX s 100 v|SETEX t 100 v|PSETEX s 100000 v|SETEX s 0 v
        GETSET s x|GETSET u x|GETDEL u|GETDEL u|GETEX s|GETEX s EX 100|GETEX s PERSIST|GETEX s PERSIST|GETEX s EXAT 1|GETEX s EX 1
        MSET a 1 b 2|MSET a 1 c 3 a 2|MSETNX a 1 z 1|MSETNX x 1 y 2|APPEND a 5|APPEND q 5|APPEND q ""|SETRANGE a 1 xx|SETRANGE r 2 xx|SETRANGE a 0 ""
        SETRANGE nokey 5 ""|INCR i|INCRBY i 5|DECR i|DECRBY i 2|INCRBYFLOAT i 1.5|INCR i|INCRBYFLOAT f 1|INCRBYFLOAT k 1|INCR k
        LPUSH l 1|SET l 1|HSET h a 1|SET h 1 GET|SET h 1|APPEND l x|INCR l|GET nokey|MGET a nokey nokey2|STRLEN nokey|GETRANGE nokey 0 1|EXISTS nokey a nokey
        TYPE nokey|OBJECT ENCODING nokey|TTL nokey|EXPIRETIME nokey|DUMP nokey|LCS nokey a|SUBSTR nokey 0 1|TOUCH nokey|DBSIZE|KEYS *|RANDOMKEY|GET l""",
    "bits": """
        SETBIT b 7 1|SETBIT b 7 1|SETBIT b 100 0|SETBIT c 0 0|BITFIELD b SET u8 0 5|BITFIELD b SET u8 0 5|BITFIELD b INCRBY u8 0 5|BITFIELD b GET u8 0
        BITFIELD z OVERFLOW FAIL SET u4 0 200|BITFIELD y GET u8 0|BITFIELD_RO y GET u8 0|BITOP AND d b c|BITOP OR d b c|BITOP NOT e b|BITOP AND b no no
        BITOP AND nodest no no|LPUSH l 1|BITOP OR l c e|BITCOUNT no|BITPOS no 1|GETBIT no 1|PFADD h a b|PFADD h a|PFADD h c|PFADD e2|PFMERGE g h|PFMERGE g h no
        PFMERGE new|PFCOUNT h|PFCOUNT no|PFCOUNT h no|PFDEBUG TODENSE h|PFDEBUG GETREG h|SETBIT l 1 1|LPUSH l2 1|SETBIT l2 1 1""",
    "keys": """
        SET k v|EXPIRE k 100|EXPIRE k 200 NX|PEXPIRE k 100000|EXPIREAT k 99999999999|PEXPIREAT k 99999999999000|PERSIST k|PERSIST k|EXPIRE k -1
        EXPIRE k 100|SET k v|PEXPIREAT k 1|SET k v|RENAME k j|RENAME j j|RENAME no j|RENAMENX j k|SET j x|RENAMENX j k|RENAME j k|LPUSH l 1|RENAME l k
        SET s 1|RENAME s k|COPY k c|COPY k c|COPY k c REPLACE|LPUSH l 1|COPY l c REPLACE|COPY c d DB 3|COPY no d|MOVE c 3|MOVE c 4|MOVE no 4
        DEL no|DEL k no l|SET a 1|SET b 1|UNLINK a b a|SET a 1 EX 100|COPY a e|RENAME a f|SWAPDB 0 3|SWAPDB 0 3|FLUSHDB|SET a 1|FLUSHALL|SET a 1|TOUCH a
        SET big 1|SELECT 2|SET two 2|RENAME two three|MOVE three 0|SELECT 0""",
    "hashes": """
        HSET h a 1|HSET h a 1|HSET h a 2 b 3|HSETNX h a 1|HSETNX h c 1|HMSET h d 1 e 2|HINCRBY h n 1|HINCRBY h n 1|HINCRBYFLOAT h n 1.5|HINCRBY h a x
        HDEL h zz|HDEL h a zz b|HDEL h c d e n|HDEL no a|HSET h a 1 b 2 c 3 d 4|HEXPIRE h 100 FIELDS 2 a zz|HEXPIRE h 100 NX FIELDS 1 a|HPEXPIRE h 100000 FIELDS 1 b
        HEXPIREAT h 99999999 FIELDS 1 b|HEXPIREAT h 9999999999 FIELDS 1 b|HPEXPIREAT h 9999999999000 FIELDS 1 b|HPERSIST h FIELDS 2 a b|HPERSIST h FIELDS 1 a
        HEXPIREAT h 1 FIELDS 2 a zz|HPEXPIRE h 0 FIELDS 1 b|HEXPIRE no 1 FIELDS 1 a|HGETEX h EX 100 FIELDS 2 c zz|HGETEX h PERSIST FIELDS 2 c d|HGETEX h FIELDS 1 c
        HGETEX h EXAT 1 FIELDS 1 zz|HGETEX h EXAT 1 FIELDS 2 c d|HGETEX no EX 1 FIELDS 1 a|HSETEX h FIELDS 1 a 1|HSETEX h EX 100 FIELDS 2 a 1 b 2
        HSETEX h KEEPTTL FIELDS 1 a 2|HSETEX h FNX FIELDS 1 a 2|HSETEX h FXX FIELDS 1 a 3|HSETEX h EX 0 FIELDS 1 zz 1|HSETEX h EX 0 FIELDS 2 a 1 b 2
        HSETEX no EX 0 FIELDS 1 a 1|HSET h a 1 b 2|HGETDEL h FIELDS 2 a zz|HGETDEL h FIELDS 1 b|HGETDEL h FIELDS 1 b|HSET h a 1 b 2
        HEXPIREAT h 1 FIELDS 2 a b|HGET no a|HGETALL no|HMGET no a|HLEN no|HEXISTS no a|HSTRLEN no a|HKEYS no|HVALS no|HSCAN no 0|HRANDFIELD no|HTTL no FIELDS 1 a
        HPEXPIRETIME no FIELDS 1 a""",
    "lists": """
        LPUSH l 1|RPUSH l 2 3|LPUSHX l 0|RPUSHX l 4|LPUSHX no 0|LINSERT l BEFORE 2 1.5|LINSERT l AFTER 99 x|LINSERT no AFTER 1 x|LSET l 0 x|LSET l 99 x|LREM l 0 zz
        LREM l 0 x|LTRIM l 0 2|LTRIM l 0 100|LTRIM no 0 1|LPOP l|RPOP l|LPOP l|LPOP l|RPUSH l 1 2 3 4|LPOP l 0|LPOP l 2|RPOP l 9|RPUSH l 1 2 3|LMOVE l m LEFT RIGHT
        LMOVE l l LEFT RIGHT|LMOVE l l LEFT LEFT|RPOPLPUSH l m|RPOPLPUSH l m|RPOPLPUSH l m|LMPOP 2 l m LEFT|LMPOP 2 l m RIGHT COUNT 9|LMPOP 1 l LEFT|BLPOP l 0.01|RPUSH l 1 2 3 4 5 6
        BLPOP no l 1|BRPOP l 1|BLMOVE l m LEFT LEFT 1|BRPOPLPUSH l m 1|BLMPOP 1 2 no l LEFT COUNT 1|BLMPOP 1 1 m LEFT COUNT 9|LREM l 1 5|LREM l 1 4|RPUSH l 1|LTRIM l 5 9
        LLEN no|LRANGE no 0 1|LINDEX no 0|LPOS no 1|RPUSH l 1|RPUSH l 1|LREM l 0 1|SET s 1|LPUSH s 1|LMOVE no s LEFT LEFT|RPUSH l b a c""",
    "sets": """
        SADD s a b|SADD s a|SADD s a c|SREM s zz|SREM s a zz|SREM no a|SMOVE s t b|SMOVE s t zz|SMOVE no t zz|SADD t c|SMOVE s t c|SMOVE t t c|SPOP t|SPOP t 5|SPOP t 5|SPOP no
        SADD s a b c|SADD u b c d|SPOP u 0|SINTERSTORE d s u|SINTERSTORE d s no|SINTERSTORE d no s|SUNIONSTORE d s u|SUNIONSTORE d s u|SDIFFSTORE d s u|SDIFFSTORE d no s|SDIFFSTORE d no s
        SET str x|SUNIONSTORE str s u|SUNIONSTORE s s u|LPUSH l 1|SINTERSTORE l s u|SINTERSTORE l no u|SUNION no s l|SINTER no s|SDIFF s no|SCARD no|SISMEMBER no a|SMISMEMBER no a b|SMEMBERS no
        SRANDMEMBER no|SRANDMEMBER no 5|SSCAN no 0|SINTERCARD 2 no s|SPOP s 3|SREM s a b c d|SADD ints 1 2 3|SPOP ints 2|SREM ints 1 2 3""",
    "sorted sets": """
        ZADD z 1 a|ZADD z 1 a|ZADD z 2 a|ZADD z 1 a 2 b|ZADD z 1 a 2 b|ZADD z XX 5 zz|ZADD z NX 5 a|ZADD z CH 6 a|ZADD z INCR 1 a|ZADD z NX INCR 1 a|ZADD z INCR 0 a|ZINCRBY z 1 a|ZINCRBY z 0 a|ZINCRBY z 1 n
        ZADD z GT 1 a|ZADD z LT CH 1 a|ZREM z zz|ZREM z a zz|ZREM no a|ZADD z 1 a 2 b 3 c 4 d 5 e|ZPOPMIN z|ZPOPMAX z 2|ZPOPMIN z 0|ZPOPMIN no|ZMPOP 2 no z MIN|ZMPOP 1 z MAX COUNT 9|BZPOPMIN z 0.01
        ZADD z 1 a 2 b 3 c 4 d 5 e|BZPOPMIN z 1|BZPOPMAX no z 1|BZMPOP 1 1 z MIN|BZMPOP 1 1 z MIN COUNT 5|ZADD z 1 a 2 b 3 c 4 d 5 e|ZREMRANGEBYRANK z 0 0|ZREMRANGEBYSCORE z 2 2|ZREMRANGEBYSCORE z 99 100
        ZADD x 0 a 0 b 0 c|ZREMRANGEBYLEX x [a [a|ZREMRANGEBYLEX x - +|ZREMRANGEBYRANK z 0 -1|ZREMRANGEBYRANK no 0 -1|ZADD z 1 a 2 b 3 c|ZADD y 1 b 5 d|ZUNIONSTORE d 2 z y|ZUNIONSTORE d 2 z y
        ZINTERSTORE d 2 z y|ZINTERSTORE d 2 z no|ZINTERSTORE d 2 z no|ZDIFFSTORE d 2 z y|ZDIFFSTORE d 2 no y|ZRANGESTORE d z 0 1|ZRANGESTORE d z 0 1|ZRANGESTORE d z 5 9|ZRANGESTORE d no 0 1|SET s 1
        ZRANGESTORE s z 0 1|SADD p a b|ZUNIONSTORE p 2 p z|SET s 1|ZUNIONSTORE s 1 z|ZSCORE no a|ZRANK no a|ZCARD no|ZRANGE no 0 1|ZCOUNT no 0 1|ZUNION 2 no z|ZINTER 2 no z|ZINTERCARD 2 no z|ZMSCORE no a
        ZRANDMEMBER no|ZSCAN no 0|ZLEXCOUNT no - +|ZRANGEBYSCORE no 0 1|ZREVRANGE no 0 1|GEOADD g 1 1 p|GEOADD g 1 1 p|GEOADD g CH 2 2 p 3 3 q|GEOADD g NX 1 1 p|GEOSEARCHSTORE gd g FROMLONLAT 1 1 BYRADIUS 9000 km
        GEOSEARCHSTORE gd g FROMLONLAT 1 1 BYRADIUS 9000 km|GEOSEARCHSTORE gd g FROMLONLAT 100 1 BYRADIUS 1 km|GEOSEARCHSTORE gd no FROMLONLAT 1 1 BYRADIUS 1 km|GEORADIUS g 1 1 9000 km STORE s|GEORADIUS g 1 1 9000 km STOREDIST s
        GEORADIUSBYMEMBER g p 9000 km STORE gd|GEORADIUS no 1 1 1 km STORE gd|GEOPOS no a|GEODIST no a b|GEOHASH no a""",
    "sort and dump": """
        MSET w_1 1 v_1 a w_2 2 v_2 b w_3 3 v_3 c|RPUSH l 3 1 2|SORT l STORE d|SORT l STORE d|SORT no STORE d|SORT no STORE d|SET s 1|SORT l STORE s|SORT l BY w_* GET v_* STORE d|SORT l|SORT no|RPUSH e 1
        RESTORE r 0 "\\x00\\x01a\\x0c\\x00\\x84r\\xff\\xc1\\x83\\x8e\\x11\\xfa\\x81"|RESTORE r 0 "\\x00\\x01a\\x0c\\x00\\x84r\\xff\\xc1\\x83\\x8e\\x11\\xfa\\x81" REPLACE|RPUSH t 1|RESTORE t 0 "\\x00\\x01a\\x0c\\x00\\x84r\\xff\\xc1\\x83\\x8e\\x11\\xfa\\x81" REPLACE """,
    "streams": """
        XADD x 1-1 a 1|XADD x 1-2 a 1|XADD x 1-1 a 1|XADD x NOMKSTREAM 1-3 a 1|XADD no NOMKSTREAM 1-3 a 1|XADD x MAXLEN 2 2-1 a 1|XADD x MAXLEN 9 2-2 a 1|XTRIM x MAXLEN 9|XTRIM x MAXLEN 2|XTRIM no MAXLEN 2|XDEL x 1-1|XDEL x 2-1|XDEL no 1-1
        XSETID x 9-1|XSETID no 1-1|XGROUP CREATE x g 0|XGROUP CREATE x g 0|XGROUP CREATE n g $ MKSTREAM|XGROUP CREATE n2 g $|XGROUP SETID x g 0|XGROUP CREATECONSUMER x g bob|XGROUP CREATECONSUMER x g bob|XADD x 10-1 a 1|XADD x 10-2 a 1|XADD x 10-3 a 1
        XREADGROUP GROUP g alice COUNT 1 STREAMS x >|XREADGROUP GROUP g alice COUNT 1 STREAMS x >|XREADGROUP GROUP g alice STREAMS x 0|XREADGROUP GROUP g carol NOACK COUNT 1 STREAMS x >|XREADGROUP GROUP g carol STREAMS x >|XREADGROUP GROUP g dave STREAMS x >
        XREADGROUP GROUP g a STREAMS no >|XREADGROUP GROUP no a STREAMS x >|XREAD STREAMS x 0|XREAD STREAMS no x 0 $|XREAD STREAMS no +|XREAD BLOCK 10 STREAMS no $|XACK x g 10-1|XACK x g 10-1|XACK no g 10-1|XCLAIM x g erin 0 10-2|XCLAIM x g frank 0 99-1|XCLAIM x g erin 0 10-2 JUSTID LASTID 10-9|XCLAIM no g e 0 1-1
        XAUTOCLAIM x g gina 0 0|XAUTOCLAIM x g gina 0 0|XAUTOCLAIM no g gina 0 0|XACKDEL x g IDS 1 10-2|XACKDEL x g IDS 1 99-2|XDELEX x IDS 1 10-3|XDELEX x IDS 1 10-3|XDELEX no IDS 1 10-3|XGROUP DELCONSUMER x g alice|XGROUP DELCONSUMER x g nobody|XGROUP DESTROY x g|XGROUP DESTROY x g
        XLEN no|XRANGE no - +|XREVRANGE no + -|XPENDING no g|XINFO STREAM no|XINFO GROUPS no|XADD x MINID 11 12-1 a 1|XADD x MAXLEN ~ 1 13-1 a 1|XDEL x 12-1 13-1|XTRIM x MINID 99|SET s 1|XADD s 1-1 a 1|XLEN s""",
    "transactions": """
        MULTI|SET a 1|LPUSH l x|PUBLISH __keyevent@0__:mine here|RENAME a b|GET nokey|EXEC|MULTI|INCR b|HSET h f v|DISCARD|MULTI|SET a 1|LPUSH a x|DEL a|FLUSHALL|SET a 1|EXEC|WATCH a|SET a 2|MULTI|SET a 3|EXEC
        MULTI|PUBLISH __keyevent@0__:only x|EXEC|MULTI|BLPOP l 0|LPUSH l 1|BLPOP l 0|EXEC""",
}
# Without a change of keys: nothing could be told of them.
NO_EVENTS = {"flushall", "flushdb", "swapdb", "function", "migrate", "restore-asking"}


def line_words(text: str) -> list[list[bytes]]:
    """The commands of a scenario; "\\xHH" in a word stands for a byte."""
    lines = [line.strip() for row in text.split("\n") for line in row.split("|")]
    words = [shlex.split(line.replace("\\", "\\\\")) for line in lines if line]
    return [[re.sub(rb"\\x(..)", lambda m: bytes.fromhex(m[1].decode()), word.encode()) for word in line] for line in words]


class Listener:
    """What a server publishes on its notification channels."""

    def __init__(self, server: PionServer | Redis82, classes: str = "KEAmnoc", pattern: str = "__key*@*"):
        self.commands = Connection(server.port)
        self.subscriber = Connection(server.port)
        self.call("CONFIG", "SET", "notify-keyspace-events", classes)
        self.subscriber.call("PSUBSCRIBE", pattern)

    def call(self, *words: object) -> object:
        self.commands.send(*words)
        return self.commands.read()

    def events(self) -> list[tuple[bytes, bytes]]:
        """All since the last time. PUBLISH comes behind them: the commands' connection waited for their replies."""
        with Connection(self.commands.socket.getpeername()[1]) as other:
            other.call("PUBLISH", "__key@end", "")
        events = []
        while True:
            message = self.subscriber.read()
            if message[2] == b"__key@end":
                return events
            events.append((message[2], message[3]))

    def close(self) -> None:
        self.call("FLUSHALL")
        self.call("CONFIG", "SET", "notify-keyspace-events", "")
        self.commands.close()
        self.subscriber.close()


@pytest.fixture(scope="module")
def redis() -> Iterator[Redis82]:
    with Redis82("--enable-debug-command", "yes") as server:
        yield server


@pytest.fixture
def listeners(pion_shared: PionServer, redis: Redis82) -> Iterator[tuple[Listener, Listener]]:
    """Both servers; nothing expires in the background."""
    both = (Listener(pion_shared), Listener(redis))
    for listener in both:
        assert listener.call("DEBUG", "SET-ACTIVE-EXPIRE", "0") == "OK"
    yield both
    for listener in both:
        listener.close()


def known_commands(server: PionServer) -> dict[str, set[str]]:
    """Names, subcommands too, and their flags."""
    with Connection(server.port) as c:
        known = {}
        for info in c.call("COMMAND"):
            for one in [info, *info[9]]:
                known[one[0].decode()] = set(one[2])
        return known


def spelled(words: list[bytes], known: dict[str, set[str]]) -> str | None:
    """The command's name in the table; None if pion-server does not know it."""
    name = words[0].decode().lower()
    sub = f"{name}|{words[1].decode().lower()}" if len(words) > 1 else ""
    return sub if sub in known else name if name in known else None


@pytest.mark.parametrize("name", SCENARIOS)
def test_events_are_those_of_redis(name: str, listeners: tuple[Listener, Listener], pion_shared: PionServer) -> None:
    known = known_commands(pion_shared)
    wrong = []
    for words in line_words(SCENARIOS[name]):
        if spelled(words, known) is None:
            continue
        told = []
        for listener in listeners:
            listener.call(*words)
            told.append(listener.events())
        if told[0] != told[1]:
            wrong.append(f"{b' '.join(words)!r}\n  pion : {told[0]}\n  redis: {told[1]}")
    assert not wrong, "\n".join(wrong)


def test_every_write_command_is_compared(pion_shared: PionServer) -> None:
    known = known_commands(pion_shared)
    compared = {spelled(words, known) for text in SCENARIOS.values() for words in line_words(text)}
    missing = {name for name, flags in known.items() if "write" in flags} - compared - NO_EVENTS
    assert not {name for name in missing if not name.startswith("prompt.")}  # no keys


def test_expiry_is_told_as_in_redis(listeners: tuple[Listener, Listener]) -> None:
    """On access and in the background: keys, and the fields of hashes."""
    for listener in listeners:
        for command in ("PSETEX k 1 v", "SET m v PX 1", "HSET h a 1 b 2", "HPEXPIRE h 1 FIELDS 1 a", "HSET g a 1", "HPEXPIRE g 1 FIELDS 1 a"):
            listener.call(*command.split())
        listener.events()
        time.sleep(0.02)
    for command in ("GET k", "GET k", "SET m w", "HGET h a", "HGET g a", "EXISTS g"):
        told = []
        for listener in listeners:
            listener.call(*command.split())
            told.append(listener.events())
        assert told[0] == told[1], command
    pion = listeners[0]
    pion.call("PSETEX", "k", 1, "v")
    pion.call("HSET", "f", "a", 1)
    pion.call("HPEXPIRE", "f", 1, "FIELDS", 1, "a")
    told: list[tuple[bytes, bytes]] = []
    pion.call("DEBUG", "SET-ACTIVE-EXPIRE", "1")
    deadline = time.monotonic() + 10
    while (b"__keyevent@0__:del", b"f") not in told or (b"__keyevent@0__:expired", b"k") not in told:
        told += pion.events()
        assert time.monotonic() < deadline, told
    names = [event[0].split(b":")[1] for event in told if event[1] == b"f" and event[0].startswith(b"__keyevent")]
    assert names == [b"new", b"hset", b"hexpire", b"hexpired", b"del"]


def test_whoever_waited_is_told_of_as_in_redis(listeners: tuple[Listener, Listener], pion_shared: PionServer, redis: Redis82) -> None:
    """The pops of served clients come behind the push that served them."""
    waits = [("BLPOP", "l", 0), ("BLMOVE", "l", "m", "LEFT", "RIGHT", 0), ("BRPOPLPUSH", "l", "m", 0), ("BLMPOP", 0, 1, "l", "LEFT", "COUNT", 2)]
    pushes = [("RPUSH", "l", "a"), ("RPUSH", "l", "a"), ("LPUSH", "l", "a", "b", "c"), ("RPUSH", "l", "a", "b", "c")]
    waits += [("BZPOPMIN", "z", 0), ("XREADGROUP", "GROUP", "g", "c", "BLOCK", 0, "STREAMS", "x", ">")]
    pushes += [("ZADD", "z", 1, "a", 2, "b"), ("XADD", "x", "1-1", "a", "b")]
    for listener in listeners:
        listener.call("XGROUP", "CREATE", "x", "g", "0", "MKSTREAM")
        listener.events()
    for wait, push in zip(waits, pushes, strict=True):
        told = []
        for listener, server in zip(listeners, (pion_shared, redis), strict=True):
            with Connection(server.port) as waiting:
                waiting.send(*wait)
                while b"blocked_clients:1" not in listener.call("INFO", "clients"):
                    time.sleep(0.002)
                listener.call(*push)
                waiting.read()
            told.append(listener.events())
            listener.call("DEL", "l", "m")
            listener.events()
        assert told[0] == told[1], wait


def test_own_events_come_behind_the_reply(pion_shared: PionServer) -> None:
    with Connection(pion_shared.port, protocol=3) as c:
        c.call("CONFIG", "SET", "notify-keyspace-events", "E$")
        c.call("SUBSCRIBE", "__keyevent@0__:set", "__keyevent@0__:incrby")
        c.read()
        c.send_many([("SET", "own", 1), ("INCR", "own"), ("GET", "own")])
        push = [b"message", b"__keyevent@0__:set", b"own"]
        assert [c.read() for _ in range(5)] == ["OK", push, 2, [b"message", b"__keyevent@0__:incrby", b"own"], b"2"]
        c.call("CONFIG", "SET", "notify-keyspace-events", "")
        c.send_many([("SET", "own", 1), ("PING",)])
        assert [c.read(), c.read()] == ["OK", "PONG"]


def test_other_databases_and_masks(pion_shared: PionServer) -> None:
    listener = Listener(pion_shared, "Kl", "__key*@5__:*")
    listener.call("SELECT", 5)
    listener.call("SET", "s", 1)
    listener.call("LPUSH", "l", 1)
    listener.call("SELECT", 0)
    listener.call("LPUSH", "l", 1)
    with Connection(pion_shared.port) as other:
        other.call("PUBLISH", "__keyspace@5__:end", "x")
    assert [listener.subscriber.read()[2:] for _ in range(2)] == [[b"__keyspace@5__:l", b"lpush"], [b"__keyspace@5__:end", b"x"]]
    listener.close()


def test_order_of_one_key_over_threads(pion_factory: Callable[..., PionServer]) -> None:
    server = pion_factory("-w", "4")
    listener = Listener(server, "Eg$", "__keyevent@0__:*")
    rounds = 2_000

    def toggle() -> None:
        with Connection(server.port) as c:
            for _ in range(rounds // 50):
                c.send_many([("SET", "k", 1, "NX"), ("DEL", "k")] * 50)
                for _ in range(100):
                    c.read()

    threads = [threading.Thread(target=toggle) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with Connection(server.port) as c:
        c.call("PUBLISH", "__keyevent@0__:end", "")
    names = []
    while not names or names[-1] != b"end":
        names.append(listener.subscriber.read()[2].split(b":")[1])
    assert len(names) > rounds // 2
    assert names[:-1] == [b"set", b"del"] * (len(names[:-1]) // 2)


def test_what_was_told_survives_a_kill(pion_factory: Callable[..., PionServer]) -> None:
    server = pion_factory("-w", "2")
    for round_number in range(3):
        listener = Listener(server, "E$x", "__keyevent@0__:*")
        stop = threading.Event()

        def write() -> None:
            with Connection(server.port) as c:
                try:
                    for i in range(1_000_000):
                        c.send_many([("SET", f"{round_number}:{i}:{j}", "v") for j in range(20)])
                        for _ in range(20):
                            c.read()
                except OSError:
                    stop.set()

        writer = threading.Thread(target=write)
        writer.start()
        told = set()
        end = time.monotonic() + 0.3
        while time.monotonic() < end:
            told.add(listener.subscriber.read()[3])
        server.kill()
        writer.join()
        try:
            while True:
                told.add(listener.subscriber.read()[3])
        except OSError:
            pass
        server.start()
        assert len(told) > 100 and stop.is_set()
        with Connection(server.port) as c:
            assert c.call("EXISTS", *told) == len(told)


def test_a_subscriber_that_does_not_read_is_closed(pion_factory: Callable[..., PionServer]) -> None:
    server = pion_factory()
    listener = Listener(server)
    listener.call("CONFIG", "SET", "client-output-buffer-limit", "pubsub 1mb 0 0")
    deadline = time.monotonic() + 60
    while b"client_output_buffer_limit_disconnections:1" not in listener.call("INFO", "stats"):
        listener.commands.send_many([("SET", "k" * 1000, i) for i in range(500)])
        for _ in range(500):
            listener.commands.read()
        assert time.monotonic() < deadline


def test_flags_as_redis_prints_them(listeners: tuple[Listener, Listener]) -> None:
    for flags in ("KEA", "K", "EKg", "KEg$lshzxet", "KEg$lshzxetd", "KEAnm", "mocKE", "A", "", "KEq", "nK$"):
        answers = [(str(one.call("CONFIG", "SET", "notify-keyspace-events", flags)), one.call("CONFIG", "GET", "notify-keyspace-events")) for one in listeners]
        assert answers[0] == answers[1], flags
