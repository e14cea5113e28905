#!/usr/bin/env python3
"""Kills the server at random points of a mixed load and checks every restart. See README.md beside this file."""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from crash import hash_model, list_model, set_model, zset_model  # noqa: E402
from crash import model as keys_model  # noqa: E402
from crash import prompt_model, stream_model  # noqa: E402
from support.resp import Connection, ServerError, as_map  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
START_LIMIT_S = 60


class Lost(AssertionError):
    """The restarted server does not show what it promised."""


class Server:
    def __init__(self, binary: Path, directory: Path, arguments: list[str]):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        log = open(directory.parent / "server.log", "ab")
        self.process = subprocess.Popen(
            [binary, "--port", str(self.port), "--dir", directory, *arguments], stdout=log, stderr=log, stdin=subprocess.DEVNULL
        )
        log.close()
        deadline = time.monotonic() + START_LIMIT_S
        while True:
            if self.process.poll() is not None:
                raise Lost(f"the server did not start: exit status {self.process.returncode}, see {directory.parent}/server.log")
            try:
                with Connection(self.port) as connection:
                    if connection.call("PING") == "PONG":
                        return
            except (OSError, ServerError):
                if time.monotonic() > deadline:
                    self.kill()
                    raise Lost("the server did not answer PING after its start") from None
            time.sleep(0.002)

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


class Driver(threading.Thread):
    """One connection's load until the server dies. `sent` keeps what went out since the last check, `answered` counts replies."""

    def __init__(self, load, pipeline_limit: int):
        super().__init__(daemon=True)
        self.load = load
        self.pipeline_limit = pipeline_limit
        self.sent: list = []
        self.answered = 0
        self.unexpected: list[str] = []
        self.port = 0

    def run(self) -> None:
        try:
            with Connection(self.port) as connection:
                while True:
                    self.pipeline(connection)
        except OSError:
            pass

    def pipeline(self, connection: Connection) -> None:
        batch = []
        for _ in range(self.load.random.randrange(1, self.pipeline_limit + 1)):
            words, change = self.load.next()
            batch.append(words if isinstance(words, list) else [words])
            self.sent.append(change)
            self.advance(change)
        connection.send_many(words for commands in batch for words in commands)
        for commands in batch:
            for words in commands:
                reply = connection.read()
                for part in reply if words == (b"EXEC",) and isinstance(reply, list) else [reply]:
                    if isinstance(part, ServerError) and not self.allowed(part):
                        self.unexpected.append(f"{words[:3]!r:.200} answered {part}")
            self.answered += 1

    def advance(self, change) -> None:
        raise NotImplementedError

    def allowed(self, error: ServerError) -> bool:
        return False

    def check(self, connection: Connection) -> str:
        """Resolves which prefix of `sent` took effect, sets the load's model to it; returns "" or what is wrong."""
        raise NotImplementedError


class KeyDriver(Driver):
    def __init__(self, id: int, seed: int):
        super().__init__(keys_model.KeyLoad(id, random.Random(seed)), pipeline_limit=32)
        self.before: keys_model.State = {}

    def advance(self, change) -> None:
        keys_model.apply(self.load.state, change)

    def read(self, connection: Connection) -> keys_model.State | str:
        """What is there, or what is wrong with it."""
        names = [b"c%d:%d" % (self.load.id, i) for i in range(self.load.keys)] + [b"c%d:n%d" % (self.load.id, i) for i in range(4)]
        connection.send_many([command for name in names for command in ((b"GET", name), (b"PEXPIRETIME", name))])
        found: keys_model.State = {}
        for name in names:
            value, expiry = connection.read(), connection.read()
            if isinstance(value, ServerError):
                return f"GET {name!r} answered {value}"
            if value is not None:
                found[name] = (value, expiry)
        for type_model in (hash_model, zset_model):
            for name in type_model.keys(self.load.id):
                elements = type_model.read(connection, name)
                if elements is not None:
                    found[name] = (elements, connection.call("PEXPIRETIME", name))
        return found

    def check(self, connection: Connection) -> str:
        found = self.read(connection)
        if isinstance(found, str):
            return found
        state = dict(self.before)
        for change in self.sent[: self.answered]:
            keys_model.apply(state, change)
        first_difference = difference(state, found)
        for change in [{}, *self.sent[self.answered :]]:
            keys_model.apply(state, change)
            if state == found:
                self.load.state, self.before = dict(state), dict(state)
                self.sent, self.answered = [], 0
                return ""
        return f"client {self.load.id}: no state after {self.answered} to {len(self.sent)} commands is what is there; {first_difference}"


class ListDriver(KeyDriver):
    def __init__(self, id: int, seed: int):
        super().__init__(id, seed)
        self.load = list_model.ListLoad(id, random.Random(seed))

    def read(self, connection: Connection) -> list_model.State | str:
        found: list_model.State = {}
        for name in self.load.names():
            elements = connection.call(b"LRANGE", name, 0, -1)
            if elements:
                found[name] = (tuple(elements), -1)
        return found


class StreamDriver(Driver):
    def __init__(self, id: int, seed: int):
        super().__init__(stream_model.StreamLoad(id, random.Random(seed)), pipeline_limit=32)
        self.before: stream_model.State = {}

    def advance(self, change) -> None:
        self.load.state.update(change)

    def check(self, connection: Connection) -> str:
        states = {name: stream_model.found_state(connection, name) for name in self.load.names()}
        found = {name: state for name, state in states.items() if state is not None}
        state = dict(self.before)
        for change in self.sent[: self.answered]:
            state.update(change)
        expected = dict(state)
        for change in [{}, *self.sent[self.answered :]]:
            state.update(change)
            if state == found:
                self.load.state, self.before = dict(state), dict(state)
                self.sent, self.answered = [], 0
                return ""
        wrong = next((name for name in self.load.names() if expected.get(name) != found.get(name)), None)
        return f"streams of {self.load.id}: {wrong!r} expected {expected.get(wrong)!r:.1500}, found {found.get(wrong)!r:.1500}"


class SetDriver(KeyDriver):
    def __init__(self, id: int, seed: int):
        super().__init__(id, seed)
        self.load = set_model.SetLoad(id, random.Random(seed))

    def read(self, connection: Connection) -> set_model.State | str:
        found: set_model.State = {}
        for name in self.load.names():
            members = connection.call(b"SMEMBERS", name)
            if members:
                found[name] = (tuple(sorted(members)), -1)
        return found


class PromptDriver(Driver):
    def __init__(self, id: int, model: bytes, seed: int, evicting: bool):
        super().__init__(prompt_model.PromptLoad(id, model, random.Random(seed)), pipeline_limit=4)
        self.before: list[prompt_model.Chain] = []
        self.evicting = evicting

    def advance(self, change) -> None:
        prompt_model.apply(self.load.puts, change)

    def allowed(self, error: ServerError) -> bool:
        # With eviction running, a chain's head may be gone before its next part comes: GAP is the honest answer.
        return self.evicting and str(error).startswith(("GAP", "OOM"))

    def check(self, connection: Connection) -> str:
        chains = list(dict.fromkeys(chain for chain in [*self.before, *self.sent] if chain is not None))[-60:]
        matched = {}
        for chain in chains:
            wrong, matched[chain] = self.match_and_read(connection, chain)
            if wrong:
                return wrong
        puts = list(self.before)
        for change in self.sent[: self.answered]:
            prompt_model.apply(puts, change)
        first = self.first_difference(puts, chains, matched)
        for change in [(), *self.sent[self.answered :]]:
            if change != ():
                prompt_model.apply(puts, change)
            if not self.first_difference(puts, chains, matched):
                puts = [chain for chain in puts if chain in matched and matched[chain] == len(chain)] if self.evicting else puts
                self.load.puts, self.before = list(puts[-60:]) if self.evicting else list(puts), list(puts)
                self.sent, self.answered = [], 0
                return ""
        return f"salt {self.load.salt!r}: no state after {self.answered} to {len(self.sent)} commands is what is there; {first}"

    def first_difference(self, puts, chains, matched) -> str:
        for chain in chains:
            expected = self.load.expected_match(puts, chain)
            if matched[chain] != expected and not (self.evicting and matched[chain] < expected):
                return f"a chain of {len(chain)} tokens matched {matched[chain]}, expected {expected}"
        return ""

    def match_and_read(self, connection: Connection, chain) -> tuple[str, int]:
        reply = connection.call(b"PROMPT.MATCH", self.load.model, prompt_model.blob_of_tokens(chain), b"SALT", self.load.salt)
        answer = as_map(reply)
        matched, lease = answer[b"matched"], answer[b"lease"]
        if matched == 0:
            return "", 0
        for pool in prompt_model.MODELS[self.load.model]["pools"]:
            got = connection.call(b"PROMPT.READ", lease, b"POOL", pool["name"])
            if got != prompt_model.runs(pool, chain, 0, matched):
                return f"wrong bytes in pool {pool['name']} of a chain matched to {matched}", matched
        if connection.call(b"PROMPT.RELEASE", lease) != 1:
            return "a lease that was just read was not held", matched
        return "", matched


def difference(expected: keys_model.State, found: keys_model.State) -> str:
    for key in sorted(expected.keys() | found.keys()):
        if expected.get(key) != found.get(key):
            return f"{key!r}: after all answered commands {brief(expected.get(key))}, found {brief(found.get(key))}"
    return "equal to what was answered"


def brief(entry: tuple | None) -> str:
    if entry is not None and isinstance(entry[0], tuple):
        return f"{len(entry[0])} elements {entry[0][:3]!r}.. expiring {entry[1]}"
    return "nothing" if entry is None else f"{len(entry[0])} bytes {entry[0][:16]!r}.. expiring {entry[1]}"


def disturb(port: int, generator: random.Random, stop: threading.Event) -> None:
    """Checkpoints in the middle of everything."""
    try:
        with Connection(port) as connection:
            while not stop.wait(generator.random() * 0.08):
                connection.send("BGSAVE")
                connection.read()
    except OSError:
        pass


def one_round(arguments, directory: Path, drivers: list[Driver], generator: random.Random) -> None:
    options = ["--appendfsync", arguments.sync, "--prompt-budget", str(arguments.budget), "-w", "2"]
    server = Server(arguments.binary, directory, options)
    try:
        with Connection(server.port) as connection:
            for name in prompt_model.MODELS:
                connection.call("PROMPT.MODEL", "SET", name, prompt_model.manifest(name))
            for driver in drivers:
                if wrong := driver.check(connection):
                    raise Lost(wrong)
            check_budget(connection, arguments.budget)
        running = [driver for driver in drivers]
        for driver in running:
            driver.port = server.port
            driver.start()
        stop = threading.Event()
        disturber = threading.Thread(target=disturb, args=(server.port, generator, stop), daemon=True)
        disturber.start()
        time.sleep(generator.random() * arguments.load_s)
        if server.process.poll() is not None:
            raise Lost(f"the server ended by itself with status {server.process.returncode}")
    finally:
        server.kill()
    stop.set()
    for thread in [*running, disturber]:
        thread.join()
    for driver in drivers:
        if driver.unexpected:
            raise Lost(driver.unexpected[0])


def check_budget(connection: Connection, budget: int) -> None:
    info = as_map(connection.call("PROMPT.INFO"))
    if info[b"bytes"] > budget:
        raise Lost(f"prompt memory holds {info[b'bytes']} bytes, over the budget of {budget}")


def fresh_drivers(seed: int, evicting: bool) -> list[Driver]:
    drivers: list[Driver] = [KeyDriver(i, seed * 1000 + i) for i in range(4)]
    drivers += [ListDriver(i, seed * 1000 + i) for i in (4, 5)]
    drivers += [StreamDriver(20, seed * 1000 + 20), StreamDriver(21, seed * 1000 + 21)]
    drivers += [SetDriver(i, seed * 1000 + i) for i in (6, 7)]
    drivers += [PromptDriver(10, b"plain", seed * 1000 + 10, evicting), PromptDriver(11, b"hybrid", seed * 1000 + 11, evicting)]
    return drivers


def successor(driver: Driver) -> Driver:
    """The same connection for the next round: a thread runs once."""
    clone = object.__new__(type(driver))
    clone.__dict__.update({k: v for k, v in driver.__dict__.items() if not k.startswith("_")})
    threading.Thread.__init__(clone, daemon=True)
    return clone


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sync", choices=["always", "everysec", "no"], default="everysec")
    parser.add_argument("--budget", type=int, default=1 << 30, help="bytes of prompt memory; small ones keep eviction running")
    parser.add_argument("--load-s", type=float, default=0.12, help="the longest load before a kill, seconds")
    parser.add_argument("--rounds-per-directory", type=int, default=50)
    parser.add_argument("--binary", type=Path, default=Path(os.environ.get("PION_SERVER", ROOT / "build/release/pion-server")))
    parser.add_argument("-v", "--verbose", action="store_true")
    arguments = parser.parse_args()
    evicting = arguments.budget < 1 << 29

    commands = kills = 0
    while kills < arguments.kills:
        seed = arguments.seed + kills
        generator = random.Random(seed)
        place = Path(tempfile.mkdtemp(prefix="pion-crash-"))
        drivers = fresh_drivers(seed, evicting)
        for _ in range(min(arguments.rounds_per_directory, arguments.kills - kills)):
            try:
                one_round(arguments, place / "data", drivers, generator)
            except Lost as lost:
                print(f"FAILED at kill {kills} (--seed {seed}): {lost}\nthe directory is kept: {place}")
                return 1
            commands += sum(driver.answered for driver in drivers)
            drivers = [successor(driver) for driver in drivers]
            kills += 1
            if arguments.verbose:
                print(f"kill {kills}: {commands} commands answered so far", flush=True)
        shutil.rmtree(place)
    print(f"{kills} kills, {commands} acknowledged commands, 0 lost, 0 torn (--sync {arguments.sync}, --budget {arguments.budget})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
