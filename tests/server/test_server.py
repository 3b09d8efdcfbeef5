"""A real vLLM server with random weights: its own CPU attention, and anyflash's plugin.

Both servers answer the same requests over HTTP, by turns. Run by `tests/run server`.
SERVER_DTYPE: float32 or bfloat16; fp8: bfloat16, with an fp8 cache in the server that has the
plugin. SERVER_REQUESTS: how many (200). SERVER_RESULTS: a file to append the results to, rows
of a table and items of a list.
"""

import os
import pathlib
import random
import statistics
import time
from concurrent.futures import ThreadPoolExecutor

import model
import pytest
import vllm_server

DTYPE = os.environ.get("SERVER_DTYPE", "float32")
REQUESTS = int(os.environ.get("SERVER_REQUESTS", "200"))
TURN = 20  # requests of a server's turn
CLIENTS = 8
# How far two kernels' logprobs may be apart: sums in a different order, through the layers. In
# bfloat16 each layer rounds, and logits between 8 and 16 are multiples of 1/16.
APART = {"float32": 2e-3, "bfloat16": 0.3, "fp8": None}[DTYPE]


def tell(line):
    print("\n" + line, end="")
    if "SERVER_RESULTS" in os.environ:
        with pathlib.Path(os.environ["SERVER_RESULTS"]).open("a") as file:
            file.write(line + "\n")


def make_requests(seed):
    """Prompts of 1 to 700 tokens, some with a common beginning, and 1 to 48 tokens to make."""
    choose = random.Random(seed)

    def words(count):
        return [choose.randrange(3, model.WORDS) for _ in range(count)]

    common = words(300)
    made = []
    for _ in range(REQUESTS):
        prompt = words(int(2 ** choose.uniform(0, 8.6)))
        if choose.random() < 0.25:
            prompt = common[: choose.randrange(1, 300)] + prompt
        made.append((prompt, choose.randint(1, 48)))
    return made


@pytest.fixture(scope="module")
def servers(tmp_path_factory):
    folder = tmp_path_factory.mktemp("server")
    model.main(folder / "model")
    made = []
    try:
        for name in ("own", "anyflash"):
            kind = DTYPE, "auto"
            if DTYPE == "fp8":
                kind = "bfloat16", "fp8" if name == "anyflash" else "auto"
            made.append(vllm_server.Server(name, folder / "model", folder, *kind))
        for server in made:
            server.wait()
        for server in made:
            server.pause()
        yield made
    finally:
        for server in made:
            server.stop()


def answer(clients, server, requests):
    return list(clients.map(lambda request: server.complete(*request), requests))


@pytest.fixture(scope="module")
def answers(servers):
    """By server: its answers, in the order of the requests, and the seconds of its turns."""
    requests = make_requests(seed=1)
    found = {server.name: ([], []) for server in servers}
    with ThreadPoolExecutor(CLIENTS) as clients:
        for server in servers:  # what is compiled or allocated at the first request
            server.go_on()
            answer(clients, server, make_requests(seed=2)[:4])
            server.pause()
        for at in range(0, REQUESTS, TURN):
            for server in servers:
                server.go_on()
                start = time.perf_counter()
                part = answer(clients, server, requests[at : at + TURN])
                found[server.name][0].extend(part)
                found[server.name][1].append(time.perf_counter() - start)
                server.pause()
    return found


def test_each_server_uses_its_attention(servers):
    own, ours = (server.log.read_text() for server in servers)
    assert "anyflash" not in own
    assert "anyflash takes the place of CPU_ATTN" in ours


@pytest.mark.skipif(DTYPE != "fp8", reason="both caches are of one type")
def test_most_first_tokens_are_the_same_with_an_fp8_cache(answers):
    """The other server's cache is bfloat16: with its own fp8 cache, vLLM rounds towards zero,
    the engine to the nearest."""
    pairs = list(zip(answers["own"][0], answers["anyflash"][0]))
    same = [(own, ours) for own, ours in pairs if own[1][0] == ours[1][0]]
    apart = statistics.mean(abs(own[2][0] - ours[2][0]) for own, ours in same)
    whole = sum(own[1] == ours[1] for own, ours in pairs)
    tell(
        f"- {DTYPE}: the first token of {len(same)} of {REQUESTS} requests was the same, all "
        f"tokens of {whole}; logprobs of the first {apart:.3f} apart on average"
    )
    assert len(same) > 0.8 * REQUESTS


@pytest.mark.skipif(DTYPE == "fp8", reason="fp8 rounds too much")
def test_the_tokens_are_the_same(answers):
    """Until a step at which the best two words are as close as the kernels' rounding."""
    parted, farthest = 0, 0.0
    for i, (own, ours) in enumerate(zip(answers["own"][0], answers["anyflash"][0])):
        assert len(own[1]) == len(ours[1])
        for step, (word, other) in enumerate(zip(own[1], ours[1])):
            if word != other:
                gaps = own[3][step], ours[3][step]
                assert max(gaps) <= 2 * APART, f"request {i}, step {step}: {word}, {other}"
                parted += 1
                break
            apart = abs(own[2][step] - ours[2][step])
            assert apart <= APART, f"request {i}, step {step}: logprobs {apart} apart"
            farthest = max(farthest, apart)
    same = REQUESTS - parted
    others = ", the others up to a tie of two words" if parted else ""
    tell(
        f"- {DTYPE}: {same} of {REQUESTS} requests gave the same tokens{others}; logprobs at "
        f"most {farthest:.1e} apart"
    )


def spread(values, digits):
    """The median, and the least and the greatest in brackets."""
    low, high = min(values), max(values)
    return f"{statistics.median(values):.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


def test_speed_of_both(answers):
    """Tokens per second of turns, and latencies; no bound, because machines differ."""
    rates = {}
    for name, (found, seconds) in answers.items():
        counts = [len(answer[1]) for answer in found]
        rates[name] = [
            sum(counts[turn * TURN : (turn + 1) * TURN]) / second
            for turn, second in enumerate(seconds)
        ]
        assert sum(counts) > 0
    ratios = [ours / own for own, ours in zip(rates["own"], rates["anyflash"])]
    names = {"own": "vLLM's own", "anyflash": "the engine"}
    if DTYPE == "fp8":
        names["anyflash"] += ", fp8 cache"
    for name, (found, _) in answers.items():
        latencies = sorted(answer[0] for answer in found)
        p90 = latencies[int(0.9 * (len(latencies) - 1))]
        kind = "bfloat16" if DTYPE == "fp8" else DTYPE
        tell(
            f"| {kind} | {names[name]} | {spread(rates[name], 0)} "
            f"| {statistics.median(latencies):.3f} s | {p90:.3f} s "
            f"| {spread(ratios, 2) if name == 'anyflash' else ''} |"
        )
