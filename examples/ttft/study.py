"""Takes the measurements: one engine, one prefix length, every source of the prefix.

The order of work for one prefix length:
1.  One engine process prefills cold, keeps the prefix resident, writes the engine's own cache file.
2.  It asks Pion for the first time (nothing is there: prefilled and stored), then again.
3.  Fresh engine processes read the cache file; others ask Pion; others ask Pion after the server was killed with
    SIGKILL and started again. Each is loaded and warmed up before its clock starts. Its first request is kept apart
    from its later ones: a first request also pays for what a process does once (mapping the server's files).
    The question on the resident prefix is measured again in each of them, so that both see the same minutes, and so is the
    state put back from the process's own memory: the engine's part of any cache.
"""

from __future__ import annotations

import statistics
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, Protocol

from .worker import Worker

COLD = "cold: prefill, no cache"
STORING = "cold, Pion asked and stores"
RESIDENT = "resident prefix (the limit)"
MEMORY = "state set from memory (the bound)"
FILE = "engine's plain cache file, other process"
SAME = "Pion, same process"
OTHER = "Pion, another process"
KILLED = "Pion, another process, after SIGKILL"


class PionProcess(Protocol):
    """What a study needs of the server: where it is, and a way to kill and restart it."""

    port: int

    def restart(self) -> Any: ...


@dataclass
class Row:
    """One source of the prefix. first_ms: a process's first request; later_ms: its further ones."""

    name: str
    first_ms: list[float] = field(default_factory=list)
    later_ms: list[float] = field(default_factory=list)
    moved_bytes: int = 0
    tokens_equal: list[bool] = field(default_factory=list)
    kv_equal: list[bool] = field(default_factory=list)
    reports: list[dict[str, Any]] = field(default_factory=list)

    @property
    def all_ms(self) -> list[float]:
        return self.first_ms + self.later_ms

    @property
    def ms(self) -> float:
        """The median of first requests, or of all where "first" means nothing."""
        return statistics.median(self.first_ms or self.later_ms)


@dataclass
class Setup:
    """What to run. env: environment of engine processes. say: called with each step's title, and progress."""

    engine: str
    model: str
    threads: int
    env: dict[str, str]
    answer_tokens: int = 64
    cold_runs: int = 1
    warm_processes: int = 3
    later_requests: int = 3
    say: Callable[[str], None] = lambda title: None
    progress: Callable[[int, int], None] = lambda done, of: None


class Study:
    """Measures one prefix length; `rows` fills as it goes, in the order of the table."""

    def __init__(self, setup: Setup, prefix_tokens: int, server: PionProcess):
        self.setup, self.prefix_tokens, self.server = setup, prefix_tokens, server
        self.rows: dict[str, Row] = {}
        self.reuse = ""
        self.answer: dict[str, Any] = {}
        self.prompt: dict[str, list[int]] = {}

    def worker(self) -> Worker:
        """A fresh engine process, loaded and warmed up."""
        room = self.prefix_tokens + self.setup.answer_tokens + 128
        return Worker(self.setup.engine, self.setup.model, -(-room // 256) * 256, self.setup.threads, self.setup.env)

    def run(self, with_kill: bool = True) -> dict[str, Row]:
        """All rows. Without `with_kill` the server is left alone."""
        with tempfile.TemporaryDirectory(prefix="pion-ttft-") as folder:
            path = str(Path(folder) / "prefix.safetensors")
            self._first_process(path)
            self._other_processes(FILE, "from_file", {"path": path})
        self._other_processes(OTHER, "from_pion", {})
        if with_kill:
            self.setup.say("SIGKILL to the server, start it again")
            self.server.restart()
            self._other_processes(KILLED, "from_pion", {})
        order = [COLD, STORING, RESIDENT, MEMORY, FILE, SAME, OTHER, KILLED]
        return {name: self.rows[name] for name in order if name in self.rows}

    def _first_process(self, path: str) -> None:
        with self.worker() as worker:
            prefix, question = worker.call("prompt", prefix_tokens=self.prefix_tokens)
            self.prompt = {"prefix": prefix, "question": question}
            self.setup.say(f"cold: prefill of {len(prefix)} + {len(question)} tokens")
            for _ in range(self.setup.cold_runs):
                self._take(worker, COLD, "cold", first=True, progress=self.setup.progress)
            worker.call("save_file", path=path, prefix=prefix)
            self._resident(worker)
            self.setup.say("Pion asked for the first time: prefill, stored on the way")
            self._connect(worker)
            self._take(worker, STORING, "from_pion", first=True)
            worker.call("flush_pion")
            self.setup.say(SAME)
            for _ in range(self.setup.later_requests):
                self._take(worker, SAME, "from_pion", first=False)

    def _other_processes(self, name: str, do: str, arguments: dict[str, Any]) -> None:
        self.setup.say(f"{name}: {self.setup.warm_processes} fresh engine processes")
        for _ in range(self.setup.warm_processes):
            with self.worker() as worker:
                if do == "from_pion":
                    self._connect(worker)
                self._take(worker, name, do, first=True, **arguments)
                for _ in range(self.setup.later_requests):
                    self._take(worker, name, do, first=False, **arguments)
                self._resident(worker)
                for _ in range(self.setup.later_requests):
                    self._take(worker, MEMORY, "from_memory", first=False)

    def _connect(self, worker: Worker) -> None:
        self.reuse = worker.call("connect_pion", host="127.0.0.1", port=self.server.port)

    def _resident(self, worker: Worker) -> None:
        for _ in range(self.setup.later_requests):
            self._take(worker, RESIDENT, "resident", first=False)

    def _take(self, worker: Worker, name: str, do: str, first: bool, progress: Any = None, **arguments: Any) -> None:
        row = self.rows.setdefault(name, Row(name))
        got = worker.call(do, progress, **self.prompt, **arguments)
        (row.first_ms if first else row.later_ms).append(got["ms"])
        row.moved_bytes = max(row.moved_bytes, got.get("bytes", 0))
        row.reports.append(got)
        outcome = worker.call(
            "outcome", first=got["token"], prefix_tokens=self.prefix_tokens, count=self.setup.answer_tokens
        )
        if not self.answer:
            self.answer = outcome
        row.tokens_equal.append(outcome["tokens"] == self.answer["tokens"])
        row.kv_equal.append(outcome["digest"] == self.answer["digest"])
