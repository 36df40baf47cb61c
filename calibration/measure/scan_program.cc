// What Python runs for scan_cases.h: reads cases as lines `number kind pass batch positions heads key_heads key_dim
// value_dim channels taps`, and answers each with `number seconds spread_pct repeats`, or `number ! reason`. A sleep of
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

kinds = {"mamba2": mamba2, "gated_delta": gated_delta, "kda": kda, "lightning": lightning, "convolution": convolution}

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
