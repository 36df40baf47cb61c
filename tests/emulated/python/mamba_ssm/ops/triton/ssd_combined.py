import torch


def mamba_chunk_scan_combined(x, dt, A, B, C, chunk_size, dt_softplus):
    assert dt.sizes == x.sizes[:3] and A.sizes == x.sizes[2:3] and B.sizes == C.sizes and chunk_size == 256
    return torch.run(x)
