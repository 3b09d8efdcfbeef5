"""Proves the CUDA side on a machine with an NVIDIA GPU; `tests/run gpu-folder` packs it.

    python3 session.py run OUT SECONDS [PART ...]   on a machine with a GPU
    python3 session.py dry OUT                      some checks of `correct`, on this CPU

Each part is a process with a time limit. OUT gets results.jsonl (a line for each check), the
log of each part, and times.md. The exit code is 1 if a check failed.
"""

import json
import os
import pathlib
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
#: Each part's share of the time; what it leaves is for those after it.
PARTS = {"facts": 1, "install": 2, "correct": 14, "special": 4, "c": 1, "upstream": 5,
         "times": 5, "providers": 5}
FIRST_CALL = """import time, torch
q = torch.ones(1, 128, 2, 64, device="cuda", dtype=torch.bfloat16)
for what in ("import", "first call", "second call"):
    start = time.perf_counter()
    from flash_attn import flash_attn_func as call
    what == "import" or (call(q, q, q), torch.cuda.synchronize())
    print(f"{what} {time.perf_counter() - start:.4f} s", end="; ")"""


class Checks:
    """Runs the checks of a part until its time is over, and writes a line for each. A check
    returns (True, False or, if it could not be tried, None; a text)."""
    def __init__(self, out, part, seconds, dry=False):
        self.out, self.part, self.dry, self.end = out, part, dry, time.monotonic() + seconds

    def __call__(self, name, function, *arguments, **options):
        start, ok, text = time.monotonic(), None, "no time left for this and later checks"
        try:
            if start < self.end:
                ok, text = function(*arguments, **options)
        except Exception as error:
            ok, text = False, f"{type(error).__name__}: {str(error)[:400]}"
        line = json.dumps({"part": self.part, "check": name, "ok": ok, "text": text,
                           "seconds": round(time.monotonic() - start, 2)})
        print(line, flush=True)
        with (self.out / "results.jsonl").open("a") as file:
            file.write(line + "\n")
        if start > self.end or ok is False and "CUDA error" in text:
            sys.exit(ok is False)  # after an error of CUDA this process can use no GPU


def command(*words, codes=(0,), **environment):
    """A check that runs a program."""
    done = subprocess.run(list(map(str, words)), text=True, capture_output=True,
                          env=os.environ | environment)
    print("$", *words, f"\n{done.stdout}{done.stderr}", flush=True)
    said = (done.stderr if done.returncode else done.stdout).strip()
    return done.returncode in codes, f"exit code {done.returncode}: {said[-300:]}"


def facts(check):
    check("nvidia-smi", command, "nvidia-smi")
    for verb in ("machine", "plan"):
        words = HERE / "lib" / "anyflash", verb, "--python", sys.executable
        check(f"anyflash {verb}", command, *words, codes=(0, 1))


def install(check):
    check("pip install", command, sys.executable, "-m", "pip", "install", "--no-deps",
          "--no-index", "--upgrade", "--target", check.out / "site", *HERE.glob("*.whl"))
    for name, fresh in (("first call, compiled", "1"), ("first call, compiled before", "0")):
        check(name, command, sys.executable, "-c", FIRST_CALL, CUDA_CACHE_DISABLE=fresh)


def c(check):
    import torch
    roots = pathlib.Path("/usr/local/cuda"), pathlib.Path(torch.__file__).parents[1] / "nvidia"
    headers, runtimes = ([path for root in roots for path in root.rglob(name)]
                         for name in ("cuda_runtime_api.h", "libcudart.so*"))
    if not headers or not runtimes:
        return check("compile", lambda: (None, "there is no CUDA runtime to compile with"))
    program, pack = check.out / "attend_cuda", next(check.out.rglob("site/*/*.kernels"), "none")
    check("compile", command, "cc", HERE / "examples/attend_cuda.c", "-o", program, "-lm",
          f"-I{HERE}/include", f"-I{headers[0].parent}", HERE / "lib/libanyflash.so",
          runtimes[0], f"-Wl,-rpath,{HERE}/lib:{runtimes[0].parent}")
    check("run", command, program, ANYFLASH_KERNELS=str(pack))


def upstream(check):
    """flash-attn's own tests with random parameters, directly on the wheel."""
    try:
        import run as sampler
        import test_flash_attn
    except ImportError as error:
        return check("import", lambda text=str(error): (None, text))

    def one(job):
        verdict = sampler.run_one(job)[2]
        return None if verdict == "skipped" else verdict in ("passed", "one unit"), verdict

    tests = {name: f for name, f in vars(test_flash_attn).items() if name.startswith("test_")}
    sampler.FUNCTIONS, seed = tests, int(time.time())
    for job in sampler.sample(tests, 4000, seed, sampler.LARGEST["cuda"]):
        check(f"seed {seed}, {sampler.short(*job)}", one, job)


def providers(check):
    check("bench/gpu_providers.py", command, sys.executable, HERE / "bench/gpu_providers.py",
          "--only", "answers", "times", "--keys", "2048", "8192")


def run(out, seconds, names, dry=False):
    """Runs each part in a process, which is killed in the end with all that it started."""
    out.mkdir(parents=True, exist_ok=True)
    end, results = time.monotonic() + seconds, out / "results.jsonl"
    results.write_text("")
    os.environ["ANYFLASH_LIBRARY"] = str(HERE / "lib" / "libanyflash.so")
    os.environ["PYTHONPATH"] = f"{out}/site:{HERE}/python:{HERE}/tests/flash_attn"
    for i, name in enumerate(names):
        share = PARTS[name] / sum(PARTS[other] for other in names[i:])
        limit = max(5, (end - time.monotonic()) * share)
        words = ["timeout", "--signal=KILL", str(limit), sys.executable, "-Bu", __file__]
        words += ["part", out, name, str(limit * 0.8), *["dry"] * dry]
        with (out / f"{name}.log").open("w") as log:
            Checks(out, name, 5)(f"ended within {limit:.0f} s", lambda: (
                subprocess.call(words, stdout=log, stderr=log) == 0, f"see {name}.log"))
    rows = list(map(json.loads, results.read_text().splitlines()))
    for name in names:
        count = [row["ok"] for row in rows if row["part"] == name].count
        print(f"{name}: {count(True)} ok, {count(False)} failed, {count(None)} not tried")
    failed = [row for row in rows if row["ok"] is False]
    for row in failed:
        print("failed:", row["part"], row["check"], row["text"][-200:], sep=" | ")
    return bool(failed)


def main(verb, out, *rest):
    out = pathlib.Path(out).resolve()
    if verb != "part":
        seconds, *names = rest or (150, "correct")
        return run(out, float(seconds), names or list(PARTS), dry=verb == "dry")
    own = globals().get(rest[0]) or __import__(rest[0]).part
    return own(Checks(out, rest[0], float(rest[1]), rest[2:] == ("dry",)))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]) if sys.argv[3:] or sys.argv[1:-1] == ["dry"] else __doc__)
