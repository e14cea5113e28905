"""SmolLM2 in mlx-lm, processes of their own: the lines of the README, kills, many at once, and mlx_lm.server."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
import urllib.request
from pathlib import Path

import pytest

pytest.importorskip("mlx.core")

from mlx_worker import Worker, blas_env  # noqa: E402
from pion.client import Client  # noqa: E402
from support import parts  # noqa: E402
from support.servers import free_port  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "mlx.md").read_text()
NO_SERVER = 1


def head_and_question(worker, tokens):
    prefix, suffix = worker.call(do="split", prefix=TEXT, suffix="\n\nQuestion: what is kept?\nAnswer:")
    return prefix[:tokens], suffix


def stored_tokens(client, prefix):
    models = client.model_list()
    return client.match(models[0], prefix, salt="test|smollm2", lease_ms=0).matched if models else 0


def test_same_tokens_and_rows_in_another_process_and_after_kills(pion):
    """64 greedy tokens, K/V bit-equal: without Pion, first process, second process, after SIGKILL of server and engine."""
    with Worker(NO_SERVER, enabled=False, prefill_chunk_size=64, step=128) as worker:
        prefix, suffix = head_and_question(worker, 250)
        cold = worker.call(do="ask", prefix=prefix, suffix=suffix, count=64)
        assert cold["matched"] == 0 and cold["fed"] == 250
    with Worker(pion.port, prefill_chunk_size=64, step=128) as worker:
        first = worker.call(do="ask", prefix=prefix, suffix=suffix, count=64)
        assert (first["matched"], first["fed"], first["stored"]) == (0, 250, 250)
    with Worker(pion.port) as worker:
        second = worker.call(do="ask", prefix=prefix, suffix=suffix, count=64)
        other = worker.call(do="ask", prefix=prefix, suffix=suffix, count=1, namespace="another")
        assert other["matched"] == 0
    pion.restart()
    with Worker(pion.port) as worker:
        third = worker.call(do="ask", prefix=prefix, suffix=suffix, count=64)
        cut = worker.call(do="ask", prefix=prefix[:101], suffix=prefix[101:110], count=1)
        assert (cut["matched"], cut["fed"]) == (101, 0)
    for warm in (second, third):
        assert (warm["matched"], warm["fed"]) == (250, 0)
    for run in (first, second, third):
        assert run["tokens"] == cold["tokens"] and run["rows"] == cold["rows"]


def test_a_prefill_killed_half_way_is_taken_up(pion):
    with Worker(pion.port, prefill_chunk_size=32, step=32) as worker:
        prefix, suffix = head_and_question(worker, 320)
        worker.send(do="ask", prefix=prefix, suffix=suffix, count=1)
        # When some steps are stored: end the process that is at work on the rest.
        with Client(port=pion.port) as client:
            while stored_tokens(client, prefix) < 96:
                assert worker.process.poll() is None
                time.sleep(0.02)
        worker.kill()
    with Worker(pion.port, prefill_chunk_size=32, step=32) as other:
        rest = other.call(do="ask", prefix=prefix, suffix=suffix, count=64)
    assert rest["matched"] >= 96 and rest["matched"] % 32 == 0
    with Worker(NO_SERVER, enabled=False, prefill_chunk_size=32, step=32) as worker:
        cold = worker.call(do="ask", prefix=prefix, suffix=suffix, count=64)
    assert rest["tokens"] == cold["tokens"] and rest["rows"] == cold["rows"]


def test_two_processes_cold_on_one_prefix_prefill_it_once(pion):
    with Worker(pion.port) as a, Worker(pion.port) as b:
        prefix, suffix = head_and_question(a, 200)
        b.call(do="split", prefix="", suffix="ready")
        for worker in (a, b):
            worker.send(do="ask", prefix=prefix, suffix=suffix, count=8)
        answers = [a.answer(), b.answer()]
    assert sum(run["fed"] for run in answers) == 200
    assert answers[0]["tokens"] == answers[1]["tokens"] and answers[0]["rows"] == answers[1]["rows"]


def test_the_lines_of_the_readme_run_as_they_stand(pion):
    """The code of the package's README, word for word but for the model's path and the port; twice."""
    readme = (Path(__file__).resolve().parents[2] / "pion-vllm-mlx" / "README.md").read_text()
    lines = [line[4:] for line in readme.splitlines() if line.startswith("    ")]
    block = "\n".join(lines)
    assert "cache = pc.get_or_prefill(prefix_ids, namespace=" in block
    folder = parts.part("PION_MODEL_SMOLLM2_MLX")
    block = block.replace('load("...")', f"load({str(folder)!r})").replace("port=1974", f"port={pion.port}")
    script = f"""
from tokenizers import Tokenizer
encode = lambda text: Tokenizer.from_file({str(folder / "tokenizer.json")!r}).encode(text).ids
prefix_ids = encode("<|im_start|>system\\nYou answer with one word and nothing else, whatever you are asked. Never explain. " * 3 + "<|im_end|>\\n")
suffix_ids = encode("<|im_start|>user\\nThe capital of France?<|im_end|>\\n<|im_start|>assistant\\n")
{block}
import json
print(json.dumps([text, pc.last.matched, len(prefix_ids)]))
"""
    env = blas_env()
    runs = []
    for _ in range(2):
        out = subprocess.run([str(parts.part("PION_PYTHON")), "-c", script], env=env, check=True, capture_output=True, text=True)
        runs.append(json.loads(out.stdout.splitlines()[-1]))
    assert runs[0][1] == 0 and runs[1][1] == runs[1][2] > 60
    assert runs[0][0] == runs[1][0] and "Paris" in runs[0][0]


class MlxServer:
    """``python -m pion.mlx_server`` on a free port."""

    def __init__(self, pion_port):
        self.port = free_port()
        env = {**blas_env(), "PION_PORT": str(pion_port)}
        argv = [str(parts.part("PION_PYTHON")), "-m", "pion.mlx_server", "--model", str(parts.part("PION_MODEL_SMOLLM2_MLX"))]
        self.process = subprocess.Popen([*argv, "--port", str(self.port), "--log-level", "WARNING"], env=env)

    def chat(self, text, count=12):
        body = {"messages": [{"role": "user", "content": text}], "max_tokens": count, "temperature": 0}
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/v1/chat/completions",
            json.dumps(body).encode(),
            {"Content-Type": "application/json"},
        )
        while True:
            try:
                with urllib.request.urlopen(request, timeout=240) as reply:
                    answer = json.load(reply)
                    break
            except (ConnectionError, urllib.error.URLError):
                assert self.process.poll() is None, "the server ended"
                time.sleep(0.2)
        return answer["choices"][0]["message"]["content"], answer["usage"]

    def close(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


def test_mlx_server_goes_on_where_the_killed_one_was(pion):
    """The same request to a server that was started after SIGKILL of the first: all but the last token is cached."""
    text = TEXT[:600]
    answers = []
    for _ in range(2):
        server = MlxServer(pion.port)
        try:
            answers.append(server.chat(text))
            if len(answers) == 1:
                again, usage = server.chat(text)
                assert again == answers[0][0]
                assert usage["prompt_tokens_details"]["cached_tokens"] == usage["prompt_tokens"] - 1
        finally:
            server.close()
    (cold, usage), (warm, warm_usage) = answers
    assert warm == cold
    assert usage["prompt_tokens_details"]["cached_tokens"] == 0
    assert warm_usage["prompt_tokens_details"]["cached_tokens"] == warm_usage["prompt_tokens"] - 1


def test_weights_tool_leaves_nothing_half_done(tmp_path):
    """A second run finds the folder; another architecture is refused by name and leaves no folder."""
    env = parts.engine_env()
    argv = [str(parts.part("PION_PYTHON")), "-m", "pion.mlx_weights"]
    folder = parts.part("PION_MODEL_SMOLLM2_MLX")
    before = os.stat(folder / "model.safetensors").st_mtime_ns
    subprocess.run([*argv, str(parts.part("PION_MODEL_SMOLLM2")), str(folder)], env=env, check=True)
    assert os.stat(folder / "model.safetensors").st_mtime_ns == before
    refused = subprocess.run([*argv, str(parts.part("PION_MODEL_GEMMA3")), str(tmp_path / "x")], env=env, capture_output=True, text=True)
    assert refused.returncode == 1 and "gemma3" in refused.stderr and not list(tmp_path.iterdir())
