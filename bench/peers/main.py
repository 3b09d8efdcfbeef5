"""Times one attention case with one other library: python -B main.py LIBRARY CASE.

anyflash-bench starts this once for each library and case. CASE is a JSON object; `{}` only asks
for the version. The answer is one JSON object on stdout: `version`, then `milliseconds` (each
run), `dtype` (the type it computed in) and `results` (numbers at the probed positions); or
`decline` with the reason.
"""
import importlib
import json
import os
import sys


def answer(library, case):
    # Each library reads its own variable when it is loaded.
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "DPCPP_CPU_NUM_CUS"):
        os.environ.setdefault(name, str(case.get("threads", 1)))
    try:
        common = importlib.import_module("common")
    except ImportError as error:
        return {"decline": f"not installed: {error}"}
    common.np.seterr(over="ignore")
    try:
        name = "peer_torch" if library == "flex" else f"peer_{library}"
        module = importlib.import_module(name)
        return getattr(module, f"run_{library}")(case)
    except ImportError as error:
        return {"decline": f"not installed: {error}"}
    except common.Decline as reason:
        return {"decline": str(reason)}
    except Exception as error:  # any failure of a library is an answer
        return {"decline": f"{type(error).__name__}: {error}".splitlines()[0][:150]}


if __name__ == "__main__":
    print(json.dumps(answer(sys.argv[1], json.loads(sys.argv[2]))))
