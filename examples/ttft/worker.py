"""An engine in a process of its own: the parent's handle, and the process itself.

Requests and answers are JSON lines: {"do": method, ...} down, {"progress": [done, of]} any number of times and
{"result": ...} or {"error": text} up. The model is loaded and warmed up before the first request is taken, as in a
server that is up and gets a request.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any, Callable

HERE = Path(__file__).resolve().parent


class WorkerFailed(RuntimeError):
    """The worker process ended, or its engine raised; the text is its traceback."""


class Worker:
    """A running engine process. `call` blocks; close() or `with` ends the process."""

    def __init__(self, engine: str, model: str, n_ctx: int, threads: int, env: dict[str, str]):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "ttft.worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            cwd=HERE.parent, env=env,
        )
        self.about = self.call("load", engine=engine, model=model, n_ctx=n_ctx, threads=threads)

    def call(self, do: str, progress: Callable[[int, int], None] | None = None, **arguments: Any) -> Any:
        """Runs one method of the session over there; returns its result."""
        assert self.process.stdin and self.process.stdout
        try:
            self.process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise WorkerFailed(f"the engine process ended with {self.process.wait()}") from None
        for line in self.process.stdout:
            answer = json.loads(line)
            if "progress" in answer:
                if progress:
                    progress(*answer["progress"])
            elif "error" in answer:
                raise WorkerFailed(answer["error"])
            else:
                return answer["result"]
        raise WorkerFailed(f"the engine process ended with {self.process.wait()} during {do}")

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe:
                try:
                    pipe.close()
                except BrokenPipeError:
                    pass

    def __enter__(self) -> "Worker":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _main() -> None:
    # Engines print; answers have a descriptor of their own.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    from .engines import SESSIONS

    session: Any = None

    def say(**answer: Any) -> None:
        answers.write(json.dumps(answer) + "\n")

    for line in sys.stdin:
        request = json.loads(line)
        do = request.pop("do")
        try:
            if do == "load":
                session = SESSIONS[request.pop("engine")](**request)
                session.warm_up()
                result: Any = {"pid": os.getpid()}
            else:
                if do == "cold":
                    request["progress"] = lambda done, of: say(progress=[done, of])
                result = getattr(session, do)(**request)
            say(result=result)
        except Exception:
            say(error=traceback.format_exc())


if __name__ == "__main__":
    _main()
