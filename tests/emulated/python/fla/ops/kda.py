import torch


def chunk_kda(q, k, v, g, beta, use_qk_l2norm_in_kernel):
    assert g.sizes == k.sizes and beta.sizes == v.sizes[:3]
    return torch.run(v), None
