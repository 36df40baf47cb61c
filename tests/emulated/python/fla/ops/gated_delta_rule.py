import torch


def chunk_gated_delta_rule(q, k, v, g, beta, use_qk_l2norm_in_kernel):
    assert q.sizes == k.sizes and g.sizes == beta.sizes == v.sizes[:3]
    return torch.run(v), None
