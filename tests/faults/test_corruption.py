"""Flipped bits and cut files anywhere in the data directory: the server starts, and no wrong byte is served."""

import os
import random
import shutil
from pathlib import Path

import pytest

from crash import prompt_model
from support.resp import Connection, ServerError, as_map
from support.servers import PionServer

TRIALS = int(os.environ.get("PION_CORRUPTION_TRIALS", "60"))
MODEL = b"hybrid"
SALT = b"salt-0"


def value_of(i: int) -> bytes:
    """Keys are written once, so a lost record can only make a key vanish, never show an older value."""
    generator = random.Random(i)
    return generator.randbytes(150_000 if i % 50 == 0 else generator.randrange(1, 400))


def chains() -> list[prompt_model.Chain]:
    generator = random.Random(5)
    head = tuple(generator.randrange(1 << 32) for _ in range(200))
    return [head[: 20 * i] + tuple(generator.randrange(1 << 32) for _ in range(40)) for i in range(10)]


def fill(connection: Connection) -> None:
    connection.send_many([(b"SET", b"k%d" % i, value_of(i)) for i in range(400)])
    assert [connection.read() for _ in range(400)] == ["OK"] * 400
    connection.call("PROMPT.MODEL", "SET", MODEL, prompt_model.manifest(MODEL))
    for chain in chains():
        words = [b"PROMPT.PUT", MODEL, prompt_model.blob_of_tokens(chain), 0, b"SALT", SALT]
        for pool in prompt_model.MODELS[MODEL]["pools"]:
            words += [b"POOL", pool["name"], b"".join(prompt_model.runs(pool, chain, 0, len(chain)))]
        connection.call(*words)


@pytest.fixture(scope="module", params=["journal only", "checkpoint and journal"])
def filled(request, tmp_path_factory) -> Path:
    """A data directory as SIGKILL leaves it."""
    place = tmp_path_factory.mktemp("filled") / "data"
    with PionServer(dir=place) as server:
        with Connection(server.port) as connection:
            fill(connection)
            if request.param != "journal only":
                connection.call("SAVE")
                connection.call("SET", "after", "checkpoint")
        server.kill()
    return place


def copy(filled: Path, to: Path) -> None:
    shutil.copytree(filled, to, ignore=shutil.ignore_patterns("*.sock"))


def damage(directory: Path, generator: random.Random) -> str:
    files = [f for f in sorted(directory.rglob("*")) if f.is_file() and f.stat().st_size > 0 and f.suffix in {".log", ".dat", ".ckpt"}]
    victim = generator.choice(files)
    data = victim.read_bytes()
    used = len(data.rstrip(b"\0")) or 1
    at = generator.randrange(used)
    if generator.random() < 0.25:
        os.truncate(victim, at)
        return f"{victim.name} cut at {at}"
    if generator.random() < 0.3:
        length = generator.choice([1, 512, 4096, 70_000])
        with open(victim, "r+b") as f:
            f.seek(at)
            f.write(generator.randbytes(min(length, used - at)))
        return f"{length} random bytes in {victim.name} at {at}"
    with open(victim, "r+b") as f:
        f.seek(at)
        f.write(bytes([data[at] ^ (1 << generator.randrange(8))]))
    return f"one bit of {victim.name} at {at}"


def check_keys(connection: Connection) -> int:
    served = 0
    for i in range(400):
        connection.send("GET", f"k{i}")
        reply = connection.read()
        if reply is not None and not isinstance(reply, ServerError):
            assert reply == value_of(i), f"k{i} shows wrong bytes"
            served += 1
    return served


def check_prompts(connection: Connection) -> int:
    served = 0
    for chain in chains():
        connection.send(b"PROMPT.MATCH", MODEL, prompt_model.blob_of_tokens(chain), b"SALT", SALT)
        reply = connection.read()
        if isinstance(reply, ServerError):
            assert str(reply).startswith("NOMODEL"), str(reply)
            continue
        answer = as_map(reply)
        if answer[b"matched"] == 0:
            continue
        for pool in prompt_model.MODELS[MODEL]["pools"]:
            connection.send(b"PROMPT.READ", answer[b"lease"], b"POOL", pool["name"])
            got = connection.read()
            if isinstance(got, ServerError):
                assert str(got).startswith(("CORRUPT", "NOLEASE")), str(got)
                break
            assert got == prompt_model.runs(pool, chain, 0, answer[b"matched"]), f"wrong bytes in pool {pool['name']}"
            served += answer[b"matched"]
    return served


def test_an_undamaged_directory_serves_everything(filled: Path, tmp_path: Path) -> None:
    copy(filled, tmp_path / "data")
    with PionServer(dir=tmp_path / "data") as server, Connection(server.port) as connection:
        assert check_keys(connection) == 400
        assert check_prompts(connection) == 3 * sum(len(chain) for chain in chains())


@pytest.mark.timeout(900)
def test_damage_anywhere_serves_no_wrong_byte(filled: Path, tmp_path: Path) -> None:
    lost_something = 0
    for trial in range(TRIALS):
        generator = random.Random(trial)
        directory = tmp_path / f"t{trial}"
        copy(filled, directory)
        what = damage(directory, generator)
        try:
            with PionServer(dir=directory) as server, Connection(server.port) as connection:
                keys, tokens = check_keys(connection), check_prompts(connection)
                lost_something += keys < 400 or tokens < 3 * sum(len(chain) for chain in chains())
                assert connection.call("SET", "new", "value") == "OK"
        except Exception as failure:
            raise AssertionError(f"trial {trial}: {what}: {failure}") from failure
        shutil.rmtree(directory)
    assert lost_something > TRIALS // 10, "the damage did not reach anything that is read: this test would prove nothing"
