"""The data directory: private, one server at a time, nothing outside of it, no path made of a client's words."""

import os
import signal
import stat
import subprocess
from pathlib import Path

import pytest

from crash import prompt_model
from support.resp import Connection, ServerError
from support.servers import PionServer, StartFailed

POOL = prompt_model.PLAIN["pools"][0]


def put(connection: Connection, model: bytes, salt: bytes) -> object:
    chain = tuple(range(30))
    connection.call("PROMPT.MODEL", "SET", model, prompt_model.manifest(b"plain"))
    return connection.call(
        "PROMPT.PUT", model, prompt_model.blob_of_tokens(chain), 0, "SALT", salt, "POOL", "attn", b"".join(prompt_model.runs(POOL, chain, 0, 30))
    )


def test_everything_is_private_under_a_loose_umask(tmp_path: Path) -> None:
    old = os.umask(0o022)
    try:
        with PionServer(dir=tmp_path / "data") as server, Connection(server.port) as connection:
            connection.call("SET", "large", b"x" * 100_000)
            put(connection, b"m", b"s")
            connection.call("SAVE")
            entries = [tmp_path / "data", *(tmp_path / "data").rglob("*")]
            assert len(entries) > 5
            for entry in entries:
                mode = entry.lstat().st_mode
                expected = 0o700 if stat.S_ISDIR(mode) else 0o600
                assert stat.S_IMODE(mode) == expected, entry
    finally:
        os.umask(old)


def test_a_second_server_is_refused(tmp_path: Path) -> None:
    with PionServer(dir=tmp_path / "data") as first, Connection(first.port) as connection:
        connection.call("SET", "a", "1")
        second = PionServer(dir=tmp_path / "data")
        process = second.start_without_waiting()
        assert process.wait(timeout=20) == 1
        assert str(tmp_path / "data") in second.log_tail()
        assert connection.call("GET", "a") == b"1"
        with Connection(path=str(tmp_path / "data" / "pion.sock")) as over_unix:
            assert over_unix.call("GET", "a") == b"1", "the refused server must leave the first one's socket alone"


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o722])
def test_a_directory_others_can_write_is_refused(tmp_path: Path, mode: int) -> None:
    (tmp_path / "data").mkdir()
    os.chmod(tmp_path / "data", mode)
    server = PionServer(dir=tmp_path / "data")
    assert server.start_without_waiting().wait(timeout=20) == 1
    assert "data" in server.log_tail()


def test_a_directory_of_another_owner_is_refused(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root to give a directory away")
    (tmp_path / "data").mkdir(mode=0o700)
    os.chown(tmp_path / "data", 65534, 65534)
    assert PionServer(dir=tmp_path / "data").start_without_waiting().wait(timeout=20) == 1


NAMES = [b"../x", b"a/b", b"/etc/passwd", b"n" * 255, b"n" * 1024, b"nul\0inside", b"\xff\xfe", b"."]


def test_names_are_data(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("untouched")
    with PionServer(dir=tmp_path / "data") as server:
        with Connection(server.port) as connection:
            for name in NAMES:
                put(connection, name, name)
            with pytest.raises(ServerError):
                put(connection, b"n" * 1025, b"s")
            with pytest.raises(ServerError):
                put(connection, b"m", b"s" * 1025)
        server.kill()
        server.start()
        with Connection(server.port) as connection:
            assert sorted(connection.call("PROMPT.MODEL", "LIST"))[:1] == sorted(NAMES)[:1]
            assert set(NAMES) <= set(connection.call("PROMPT.MODEL", "LIST"))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["data", "outside"]
    assert (outside / "file").read_text() == "untouched"


@pytest.mark.parametrize("part", ["journal", "payload", "checkpoint"])
def test_a_link_in_the_directory_is_not_followed(tmp_path: Path, part: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o700)
    (tmp_path / "data").mkdir(mode=0o700)
    (tmp_path / "data" / part).symlink_to(outside)
    server = PionServer(dir=tmp_path / "data")
    try:
        server.start()
    except StartFailed:
        pass
    else:
        with Connection(server.port) as connection:
            connection.send("SET", "large", b"x" * 100_000)
            connection.read()
            connection.send("SAVE")
            connection.read()
    server.close()
    assert list(outside.rglob("*")) == []


def test_sigterm_is_a_clean_end(tmp_path: Path) -> None:
    with PionServer(dir=tmp_path / "data") as server:
        with Connection(server.port) as connection:
            connection.call("SET", "a", "1")
        server.send(signal.SIGTERM)
        assert server.process.wait(timeout=20) == 0
        assert not (tmp_path / "data" / "pion.sock").exists()
        server.start()
        with Connection(server.port) as connection:
            assert connection.call("GET", "a") == b"1"


def test_abort_leaves_a_usable_directory(tmp_path: Path) -> None:
    with PionServer(dir=tmp_path / "data") as server:
        with Connection(server.port) as connection:
            connection.call("SET", "a", "1")
            connection.send("DEBUG", "PANIC")
            with pytest.raises(ConnectionError):
                connection.read()
        assert server.process.wait(timeout=20) == -signal.SIGABRT
        server.start()
        with Connection(server.port) as connection:
            assert connection.call("GET", "a") == b"1"


def test_unknown_flags_stop_the_start_with_a_hint() -> None:
    binary = PionServer().command()[0]
    for flags, words in [(["--prot", "1"], ["--prot", "--port"]), (["--port"], ["--port"]), (["--port", "70000"], ["70000", "65535"]), (["--appendfsync", "often"], ["often", "everysec"])]:
        run = subprocess.run([binary, *flags], capture_output=True, text=True, timeout=20)
        assert run.returncode == 1
        assert all(word in run.stdout + run.stderr for word in words), run.stdout + run.stderr
