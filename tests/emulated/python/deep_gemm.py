"""A version that has the one function of both types."""
import torch

__version__ = "2.9"


def fp8_fp4_mqa_logits(q, kv, weights, cu_seq_len_k_start, cu_seq_len_k_end, clean_logits=True):
    query, scales = q
    assert scales is None and query.dtype == kv[0].dtype == torch.float8_e4m3fn
    assert weights.sizes == query.sizes[:2] and kv[0].sizes == (kv[1].sizes[0], query.sizes[2])
    assert cu_seq_len_k_start.sizes == cu_seq_len_k_end.sizes == query.sizes[:1] and not clean_logits
    return torch.run(query)
