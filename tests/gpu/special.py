"""What only a GPU can show of the wheel: random numbers, equal bits, graphs, streams."""

import concurrent.futures

import flash_attn_2_cuda
import torch
from correct import formula, integers, judge, tensor
from flash_attn import flash_attn_func as attend


def small(rows=256, groups=2, grad=False):
    """q, k and v of 2 sequences, 4 heads over `groups`, D 128, bf16."""
    return [tensor(2, rows, heads, 128, grad=grad) for heads in (4, groups, groups)]


def capture_before_any_call():
    """The error must say what to do. It is the first check of its process."""
    tensors = small()
    try:
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            attend(*tensors)
    except RuntimeError as error:
        return "make such a call" in str(error), str(error)
    return False, "the capture succeeded"


def capture_and_replay(p):
    """Each replay must use the queries of its time and, with dropout, new random numbers."""
    tensors, graph, seen, wrong = small(), torch.cuda.CUDAGraph(), [], 0
    attend(*tensors, dropout_p=p)
    with torch.cuda.graph(graph):
        out = attend(*tensors, dropout_p=p)
    for _ in range(3):
        if p == 0:
            tensors[0].normal_()
        graph.replay()
        wrong += p == 0 and not torch.equal(out, attend(*tensors))
        seen.append(out.clone())
    wrong += sum(map(torch.equal, seen, seen[1:]))
    return wrong == 0, f"{wrong} of 3 replays are wrong"


def dropout():
    p, tensors = 0.17, small(groups=4, grad=True)
    out, _, scores = attend(*tensors, dropout_p=p, return_attn_probs=True)
    kept = (scores[:, :, :256, :256] >= 0).double()
    others = (formula(*tensors, factors=kept.to(kind) / (1 - p), dtype=kind)[0]
              for kind in (torch.float64, out.dtype))
    (right, text), share = judge((out, *others), tensors), 1 - kept.mean().item()
    return right and abs(share - p) < 0.01, f"{text}; share dropped {share:.4f} of {p}"


def same_bits(p):
    """The same seed gives the same bits, and another seed does only without dropout."""
    tensors, runs = small(rows=1024, grad=True), []
    for seed in (5,) * 8 + (6,):
        torch.manual_seed(seed)
        out = attend(*tensors, dropout_p=p, causal=True, deterministic=True)
        runs.append([out, *torch.autograd.grad(out, tensors, torch.ones_like(out))])
    same = [all(map(torch.equal, run, runs[0])) for run in runs]
    return same == [True] * 8 + [p == 0], f"runs that equal the first: {same}"


def threads_and_streams():
    jobs = [small(rows) for rows in (64, 300, 1000, 2048) * 10]
    wanted = [attend(*job, causal=True) for job in jobs]
    torch.cuda.synchronize()

    def work(stream):
        with torch.cuda.stream(stream):
            torch.full((1 << 22,), torch.nan, device="cuda")  # what later outputs lie in
            found = [attend(*job, causal=True) for job in jobs]
            return sum(map(torch.equal, found, wanted))

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        right = list(pool.map(work, [torch.cuda.Stream() for _ in range(8)]))
    return right == [40] * 8, f"in 8 threads and streams, of 40 calls are right: {right}"


def two_devices():
    if torch.cuda.device_count() < 2:
        return None, "this machine has one device"
    tensors = small()
    found = attend(*(x.to("cuda:1") for x in tensors))
    return torch.equal(found.cpu(), attend(*tensors).cpu()), "cuda:1, then cuda:0"


def zero_tensors():
    """Rows of k and v in no sequence get gradients of 0, in memory above 1 MiB full of NaN."""
    tensors = [x.flatten(0, 1) for x in small(1200)]
    starts, ends = integers([0, 1200, 2400]), integers([0, 1200, 2000])
    sizes, tail = (1200, 1200, 0.0, 0.1), (False, -1, -1, 0.0, False, None)
    out, lse = flash_attn_2_cuda.varlen_fwd(*tensors, None, starts, ends, *[None] * 4, *sizes,
                                            False, *tail)[:2]
    torch.cuda.empty_cache()
    [torch.full_like(tensors[0], torch.nan) for _ in range(32)].clear()
    found = flash_attn_2_cuda.varlen_bwd(torch.ones_like(out), *tensors, out, lse, *[None] * 3,
                                         starts, ends, None, *sizes, True, *tail, None)
    zeros = [(x[2000:] == 0).all().item() for x in found[1:3]]
    return all(zeros), f"zeros in dk and dv: {zeros}"


def part(check):
    torch.set_default_device("cuda")
    check("capture before any call", capture_before_any_call)
    for p in (0.0, 0.3):
        check(f"capture and replay, dropout {p}", capture_and_replay, p)
        check(f"same seed, same bits, dropout {p}", same_bits, p)
    for function in (dropout, zero_tensors, threads_and_streams, two_devices):
        check(function.__name__.replace("_", " "), function)
