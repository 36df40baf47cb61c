import torch


def chunk_rwkv7(r, w, k, v, a, b, scale=1.0, initial_state=None, output_final_state=True):
    assert r.sizes == w.sizes == k.sizes == a.sizes == b.sizes and v.sizes[:3] == r.sizes[:3]
    return torch.run(v), None
