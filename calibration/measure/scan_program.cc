// What Python runs for scan_cases.h: reads cases as lines `number kind pass batch positions heads key_heads key_dim
// value_dim channels taps` (of sparse attention the keys that a query attends to, and that are chosen together, in
// place of the last two), and answers each with `number seconds spread_pct repeats`, or `number ! reason`. A sleep of
// the GPU ahead of every repeat lets the launches of all kernels queue up, so that events time the GPU alone.
#include "calibration/measure/scan_cases.h"

namespace orrery::calibration {

const char* const kScanProgram = R"py(
import statistics, sys

SECONDS, MOST, FEWEST = 0.25, 50, 5

def reason(error):
    text = " ".join(str(error).split()) or type(error).__name__
    return text[:120]

cases = [line.split() for line in sys.stdin if line.strip()]
try:
    import torch
    torch.cuda.set_device(int(sys.argv[1]))
except Exception as error:
    for case in cases:
        print(case[0], "!", "PyTorch: " + reason(error), flush=True)
    sys.exit(0)

found = ["torch " + torch.__version__]
def package(name):
    module = __import__(name)
    text = name + " " + getattr(module, "__version__", "")
    if text not in found:
        found.append(text)
    print("#", "; ".join(found), flush=True)

def tensor(*sizes):
    return torch.randn(*sizes, device="cuda", dtype=torch.bfloat16).requires_grad_()

def single(*sizes):
    return torch.rand(*sizes, device="cuda", dtype=torch.float32)

def decays(*sizes):
    return (-0.1 * single(*sizes)).requires_grad_()

def mamba2(b, l, h, g, n, p, channels, taps):
    package("mamba_ssm")
    from mamba_ssm.ops.triton.ssd_combined import mamba_chunk_scan_combined
    x, key, query = tensor(b, l, h, p), tensor(b, l, g, n), tensor(b, l, g, n)
    step, a = single(b, l, h).requires_grad_(), (-single(h)).requires_grad_()
    return [x, step, a, key, query], lambda: mamba_chunk_scan_combined(x, step, a, key, query, 256, dt_softplus=True)

def gated_delta(b, l, h, g, n, p, channels, taps):
    package("fla")
    from fla.ops.gated_delta_rule import chunk_gated_delta_rule
    q, k, v = tensor(b, l, h, n), tensor(b, l, h, n), tensor(b, l, h, p)
    decay, beta = decays(b, l, h), tensor(b, l, h).sigmoid().detach().requires_grad_()
    return [q, k, v, decay, beta], lambda: chunk_gated_delta_rule(q, k, v, decay, beta, use_qk_l2norm_in_kernel=True)[0]

def kda(b, l, h, g, n, p, channels, taps):
    package("fla")
    from fla.ops.kda import chunk_kda
    q, k, v = tensor(b, l, h, n), tensor(b, l, h, n), tensor(b, l, h, p)
    decay, beta = decays(b, l, h, n), tensor(b, l, h).sigmoid().detach().requires_grad_()
    return [q, k, v, decay, beta], lambda: chunk_kda(q, k, v, decay, beta, use_qk_l2norm_in_kernel=True)[0]

def lightning(b, l, h, g, n, p, channels, taps):
    package("fla")
    from fla.ops.simple_gla import chunk_simple_gla
    q, k, v = tensor(b, l, h, n), tensor(b, l, h, n), tensor(b, l, h, p)
    decay = -0.1 * single(h)
    return [q, k, v], lambda: chunk_simple_gla(q, k, v, g_gamma=decay)[0]

def rwkv7(b, l, h, g, n, p, channels, taps):
    package("fla")
    from fla.ops.rwkv7 import chunk_rwkv7
    r, k, v, a, c = tensor(b, l, h, n), tensor(b, l, h, n), tensor(b, l, h, p), tensor(b, l, h, n), tensor(b, l, h, n)
    decay = (-0.1 * tensor(b, l, h, n).sigmoid()).detach().requires_grad_()
    return [r, decay, k, v, a, c], lambda: chunk_rwkv7(r=r, w=decay, k=k, v=v, a=a, b=c)[0]

def convolution(b, l, h, g, n, p, channels, taps):
    weight = tensor(channels, taps)
    try:
        package("causal_conv1d")
        from causal_conv1d import causal_conv1d_fn
        x = torch.randn(b, l, channels, device="cuda", dtype=torch.bfloat16).transpose(1, 2).requires_grad_()
        return [x, weight], lambda: causal_conv1d_fn(x, weight, activation="silu")
    except ImportError:
        package("fla")
        from fla.modules.convolution import causal_conv1d
        x = tensor(b, l, channels)
        return [x, weight], lambda: causal_conv1d(x, weight, activation="silu")[0]

def first_of(what, *places):
    """What the first module that has it calls `what`; a module that is there without it is as good as none."""
    import importlib
    for place in places:
        try:
            function = getattr(importlib.import_module(place), what)
        except (ImportError, AttributeError, OSError):
            continue
        package(place.split(".")[0])
        return function
    raise RuntimeError("no " + what + " in " + ", ".join(places))

def ends(l):
    return torch.arange(1, l + 1, device="cuda", dtype=torch.int32)

def index(b, l, h, g, n, p, chosen, block):
    places = "deep_gemm", "vllm.third_party.deep_gemm"
    try:
        scores, pair = first_of("fp8_mqa_logits", *places), lambda query: query
    except RuntimeError:  # newer ones have one function for both types, with scales of queries in fp4
        scores, pair = first_of("fp8_fp4_mqa_logits", *places), lambda query: (query, None)
    query = torch.randn(l, h, n, device="cuda", dtype=torch.bfloat16).to(torch.float8_e4m3fn)
    key = torch.randn(l, n, device="cuda", dtype=torch.bfloat16).to(torch.float8_e4m3fn)
    scales, weights = single(l), single(l, h)
    begin, end = torch.zeros(l, device="cuda", dtype=torch.int32), ends(l)
    return [], lambda: scores(pair(query), (key, scales), weights, begin, end, clean_logits=False)

def choice(b, l, h, g, n, p, chosen, block):
    scores = single(l, l)
    return [], lambda: torch.topk(scores, chosen, dim=-1)

def chosen_blocks(l, g, blocks, block):
    """Places of blocks no later than a query's own, as kernels that know the diagonal ask for."""
    reach = torch.div(ends(l) + block - 1, block, rounding_mode="floor").view(1, l, 1, 1)
    return (single(1, l, g, blocks) * reach).to(torch.int64)

def attention(b, l, h, g, n, p, chosen, block):
    attend = first_of("flash_mla_sparse_fwd", "flash_mla", "vllm.third_party.flashmla.flash_mla_interface",
                      "sgl_kernel.flash_mla")
    query, key = tensor(l, h, n).detach(), tensor(l, g, n).detach()
    places = torch.randint(0, l, (l, g, chosen), device="cuda", dtype=torch.int32)
    return [], lambda: attend(query, key, places, n ** -0.5)

def block_attention(b, l, h, g, n, p, chosen, block):
    attend = first_of("parallel_nsa", "fla.ops.nsa", "native_sparse_attention.ops.parallel")
    q, k, v, gate = tensor(b, l, h, n), tensor(b, l, g, n), tensor(b, l, g, p), tensor(b, l, h)
    # No later than a query's own, as kernels that know the diagonal ask for.
    reach = torch.div(ends(l) + (block - 1), block, rounding_mode="floor").view(1, l, 1, 1)
    places = (single(b, l, g, chosen // block) * reach).to(torch.int64)
    return [q, k, v], lambda: attend(q=q, k=k, v=v, g_slc=gate, block_indices=places, block_counts=chosen // block,
                                     block_size=block)

kinds = {"mamba2": mamba2, "gated_delta": gated_delta, "kda": kda, "lightning": lightning, "rwkv7": rwkv7,
         "convolution": convolution, "index": index, "choice": choice, "attention": attention,
         "block_attention": block_attention}

def timed(run):
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda._sleep(10_000_000)
    begin.record()
    run()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) * 1e-3

def measured(run):
    for _ in range(3):
        run()
    torch.cuda.synchronize()
    times = [timed(run)]
    while len(times) < FEWEST or (len(times) < MOST and sum(times) < SECONDS):
        times.append(timed(run))
    middle = statistics.median(times)
    low, _, high = statistics.quantiles(times, n=4)
    return middle, 50 * (high - low) / middle, len(times)

for number, kind, way, *sizes in cases:
    try:
        inputs, forward = kinds[kind](*(int(size) for size in sizes))
        if way == "forward":
            with torch.no_grad():
                answer = measured(forward)
        else:
            out = forward()
            gradient = torch.randn_like(out)
            answer = measured(lambda: torch.autograd.grad(out, inputs, gradient, retain_graph=True, allow_unused=True))
            del out, gradient
        print(number, "%.9g %.4g %d" % answer, flush=True)
        del inputs, forward
        torch.cuda.empty_cache()
    except Exception as error:
        print(number, "!", reason(error), flush=True)
)py";

}  // namespace orrery::calibration
