import torch


def parallel_nsa(q, k, v, g_cmp=None, g_slc=None, g_swa=None, block_indices=None, block_counts=16, block_size=64):
    assert q.sizes[2] % (16 * k.sizes[2]) == 0 and g_slc.sizes == q.sizes[:3]
    assert block_indices.dtype == torch.int64 and block_indices.sizes == (*k.sizes[:3], block_counts)
    return torch.run(q)
