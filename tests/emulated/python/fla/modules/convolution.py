import torch


def causal_conv1d(x, weight, activation):
    assert x.sizes[2] == weight.sizes[0]
    return torch.run(x), None
