"""Answers for the library and the case that the command line names."""


def main():
    library, case = sys.argv[1], json.loads(sys.argv[2])
    threads = str(case.get("threads", 1))
    # Each reads its own when it is loaded.
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "DPCPP_CPU_NUM_CUS"):
        os.environ.setdefault(name, threads)
    try:
        global np
        import numpy as np
        np.seterr(over="ignore")
        answer = globals()[f"run_{library}"](case)
    except ImportError as error:
        answer = {"decline": f"not installed: {error}"}
    except Decline as reason:
        answer = {"decline": str(reason)}
    except Exception as error:  # whatever a library does is an answer about it
        answer = {"decline": f"{type(error).__name__}: {error}".splitlines()[0][:150]}
    print(json.dumps(answer))


main()
