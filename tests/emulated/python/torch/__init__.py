"""As much of PyTorch as calibrate's helper for scans asks for: tensors are sizes, kernels move a clock.

A forward pass takes 5 us and 2 ps for each element of its first argument, a backward pass three times as long."""
import math

__version__ = "9.9"
bfloat16, float32, float8_e4m3fn, int32, int64 = "bfloat16", "float32", "float8_e4m3fn", "int32", "int64"
LAUNCH, ELEMENT = 5e-3, 2e-9  # milliseconds


class Tensor:
    def __init__(self, *sizes, dtype=bfloat16):
        self.sizes, self.took, self.dtype = sizes, 0.0, dtype

    def numel(self):
        return math.prod(self.sizes)

    def transpose(self, first, second):
        sizes = list(self.sizes)
        sizes[first], sizes[second] = sizes[second], sizes[first]
        return Tensor(*sizes)

    def requires_grad_(self):
        return self

    def __neg__(self):
        return self

    def __rmul__(self, factor):
        return self

    def __add__(self, other):
        return self

    def __mul__(self, other):
        return other if len(other.sizes) > len(self.sizes) else self

    def view(self, *sizes):
        assert math.prod(sizes) == self.numel()
        return self

    def to(self, dtype):
        return Tensor(*self.sizes, dtype=dtype)

    sigmoid = detach = requires_grad_


def randn(*sizes, device, dtype):
    if device != "cuda":
        raise RuntimeError("tensors belong on the GPU")
    return Tensor(*sizes, dtype=dtype)


rand = zeros = randn


def arange(begin, end, device, dtype):
    return randn(end - begin, device=device, dtype=dtype)


def randint(low, high, sizes, device, dtype):
    assert low < high
    return randn(*sizes, device=device, dtype=dtype)


def div(value, by, rounding_mode):
    assert rounding_mode == "floor" and by > 0
    return value


def topk(scores, count, dim):
    assert dim == -1 and count <= scores.sizes[-1] and scores.dtype == float32
    return run(scores), None


def randn_like(other):
    return Tensor(*other.sizes)


class no_grad:
    def __enter__(self):
        pass

    def __exit__(self, *unused):
        pass


def run(first):
    """What every kernel of the other packages is."""
    out = Tensor(*first.sizes)
    out.took = LAUNCH + ELEMENT * first.numel()
    cuda.clock += out.took
    return out


class cuda:
    clock = 0.0

    class Event:
        def __init__(self, enable_timing):
            self.at = None

        def record(self):
            self.at = cuda.clock

        def elapsed_time(self, end):
            return end.at - self.at

    @staticmethod
    def set_device(number):
        if number > 1:
            raise RuntimeError("invalid device ordinal")

    @staticmethod
    def _sleep(cycles):
        cuda.clock += cycles * 1e-6

    @staticmethod
    def synchronize():
        pass

    empty_cache = synchronize


class autograd:
    @staticmethod
    def grad(out, inputs, gradient, retain_graph, allow_unused):
        assert gradient.sizes == out.sizes and retain_graph
        cuda.clock += 3 * out.took
        return inputs
