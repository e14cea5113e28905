"""redis-py as its users use it, over RESP2 and RESP3."""

from __future__ import annotations

import threading
from typing import Callable, Iterator

import pytest

redis = pytest.importorskip("redis")

from redis.backoff import ConstantBackoff  # noqa: E402
from redis.retry import Retry  # noqa: E402

from support.servers import PionServer  # noqa: E402

pytestmark = pytest.mark.wire


@pytest.fixture(params=[2, 3])
def protocol(request: pytest.FixtureRequest) -> int:
    return request.param


@pytest.fixture
def client(pion_shared: PionServer, protocol: int) -> Iterator[redis.Redis]:
    with redis.Redis(port=pion_shared.port, protocol=protocol, decode_responses=True) as r:
        r.flushall()
        yield r


def test_connects_and_says_who_it_is(pion_shared: PionServer, protocol: int) -> None:
    with redis.Redis(port=pion_shared.port, protocol=protocol, client_name="tester", decode_responses=True) as r:
        assert r.ping()
        me = r.client_info()
        assert me["name"] == "tester" and me["lib-name"].startswith("redis-py") and me["resp"] == str(protocol) and me["db"] in (0, "0")
        assert int(me["id"]) == r.client_id()
        assert [int(c["id"]) for c in r.client_list()].count(int(me["id"])) == 1
        assert r.client_getname() == "tester"
        assert r.echo("hello") == "hello"


def test_bytes_and_text(pion_shared: PionServer, protocol: int) -> None:
    every_byte = bytes(range(256)) * 1000
    with redis.Redis(port=pion_shared.port, protocol=protocol) as r:
        assert r.set("bytes", every_byte)
        assert r.get("bytes") == every_byte
        assert r.get("missing") is None
    with redis.Redis(port=pion_shared.port, protocol=protocol, decode_responses=True) as r:
        r.set("text", "größe €")
        assert r.get("text") == "größe €"


def test_strings_and_keys(client: redis.Redis) -> None:
    assert client.set("a", 1, ex=100) is True and 0 < client.ttl("a") <= 100
    assert client.set("a", 2, nx=True) is None
    assert client.set("a", 2, get=True) == "1"
    assert client.incrby("a", 40) == 42
    assert client.incrbyfloat("f", 1.5) == 1.5
    assert client.mset({"b": 1, "c": 2}) and client.mget("a", "b", "c", "none") == ["42", "1", "2", None]
    assert client.expire("b", 50, nx=True) and client.persist("b") and client.pttl("b") == -1
    assert client.type("a") == "string" and client.exists("a", "b", "none") == 2
    assert client.rename("a", "z") and client.copy("z", "y") and client.get("y") == "42"
    assert client.object("encoding", "z") == "int"
    assert client.getex("z", px=5000) == "42" and client.getdel("z") == "42"
    assert client.delete("b", "c", "none") == 2
    assert client.dbsize() == len(client.keys("*")) == 2
    with pytest.raises(redis.ResponseError, match="not an integer"):
        client.set("s", "x")
        client.incr("s")


def test_pipelines_keep_their_order(client: redis.Redis) -> None:
    with client.pipeline(transaction=False) as pipe:
        for i in range(1000):
            pipe.set(f"k{i}", i)
            pipe.get(f"k{i}")
        replies = pipe.execute()
    assert replies == [v for i in range(1000) for v in (True, str(i))]
    with client.pipeline(transaction=False) as pipe:
        replies = pipe.set("s", "x").incr("s").get("s").execute(raise_on_error=False)
    assert replies[0] is True and isinstance(replies[1], redis.ResponseError) and replies[2] == "x"


def test_scan_iter_finds_everything_once(client: redis.Redis) -> None:
    wanted = {f"user:{i}" for i in range(2000)}
    client.mset({key: 1 for key in wanted})
    client.mset({f"other:{i}": 1 for i in range(500)})
    assert set(client.scan_iter(match="user:*", count=100)) == wanted
    assert set(client.scan_iter(match="user:*", _type="hash")) == set()


def test_databases(pion_shared: PionServer, protocol: int) -> None:
    with redis.Redis(port=pion_shared.port, db=7, protocol=protocol, decode_responses=True) as r:
        r.set("only-here", "7")
    with redis.Redis(port=pion_shared.port, db=8, protocol=protocol) as r:
        assert r.get("only-here") is None
    with redis.Redis(port=pion_shared.port, db=99, protocol=protocol) as r, pytest.raises(redis.ResponseError, match="out of range"):
        r.ping()


def test_config_info_and_commands(client: redis.Redis, pion_shared: PionServer, protocol: int) -> None:
    assert client.config_get("maxmemory", "appendfsync") == {"maxmemory": "0", "appendfsync": "everysec"}
    assert client.config_set("timeout", 0, "maxmemory-samples", 5)
    assert client.config_resetstat()
    client.set("a", 1, ex=100)
    told = client.info()
    assert told["redis_version"] == "8.2.3" and told["tcp_port"] == pion_shared.port and told["unixsocket"] == str(pion_shared.socket)
    assert told["db0"]["keys"] == 1 and told["db0"]["expires"] == 1
    assert "used_memory" in client.info("memory") and "prompt_hits" in client.info("pion")
    commands = client.command()
    assert client.command_count() == len(commands)
    assert commands["get"]["arity"] == 2 and "readonly" in commands["get"]["flags"]
    assert client.command_getkeys("MSET", "a", 1, "b", 2) == ["a", "b"]
    assert client.command_getkeysandflags("SET", "a", "b")[0][0] == "a"
    assert client.command_list(category="string")
    assert {"get", "set"} <= set(client.command_list(pattern="*et"))
    assert client.time()[0] > 1_700_000_000
    assert client.lastsave() is not None
    assert client.waitaof(1, 0, 0) == [1, 0]
    assert client.role()[0] in ("master", b"master")


def test_unix_socket(pion_shared: PionServer, protocol: int) -> None:
    with redis.Redis(unix_socket_path=str(pion_shared.socket), protocol=protocol, decode_responses=True) as r:
        assert r.set("by-unix", "x" * 200_000) and r.strlen("by-unix") == 200_000
        assert r.client_info()["addr"] == f"{pion_shared.socket}:0"


def test_password(pion_factory: Callable[..., PionServer], protocol: int) -> None:
    server = pion_factory("--requirepass", "secret")
    with redis.Redis(port=server.port, password="secret", protocol=protocol) as r:
        assert r.ping()
    with redis.Redis(port=server.port, username="default", password="secret", protocol=protocol) as r:
        assert r.ping()
    with redis.Redis(port=server.port, protocol=protocol) as r, pytest.raises(redis.AuthenticationError):
        r.ping()
    with redis.Redis(port=server.port, password="wrong", protocol=protocol) as r, pytest.raises(redis.AuthenticationError):
        r.ping()


def test_comes_back_after_sigkill(pion: PionServer, protocol: int) -> None:
    retry = Retry(ConstantBackoff(0.05), 200)
    with redis.Redis(port=pion.port, protocol=protocol, retry=retry, retry_on_error=[redis.ConnectionError], decode_responses=True) as r:
        for i in range(100):
            r.set(f"k{i}", i)
        pion.kill()
        thread = threading.Thread(target=pion.start)
        thread.start()
        try:
            assert [r.get(f"k{i}") for i in range(100)] == [str(i) for i in range(100)]
        finally:
            thread.join()


def test_many_threads_over_one_pool(client: redis.Redis) -> None:
    def add() -> None:
        for _ in range(200):
            client.incr("counter")

    threads = [threading.Thread(target=add) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert client.get("counter") == "1600"


def test_kill_by_filter(client: redis.Redis, pion_shared: PionServer, protocol: int) -> None:
    with redis.Redis(port=pion_shared.port, protocol=protocol, single_connection_client=True) as victim:
        assert client.client_kill_filter(_id=victim.client_id()) == 1
        assert victim.ping(), "redis-py connects again"
