"""Random requests in pages, and attention on them by the definition."""

import torch

__all__ = ["Requests", "exact"]


class Requests:
    """Requests with keys of their own behind prefixes that they share, in shuffled pages."""

    def __init__(self, lengths, new, *, page_size=16, heads=(4, 2), width=(8, 8), prefix=0, dtype=torch.float64):
        self.page_size, self.new, self.lengths = page_size, new, torch.tensor(lengths, dtype=torch.int32)
        d, w = width
        shared = prefix // page_size
        places = [-(-length // page_size) for length in lengths]
        own = [max(0, count - shared) for count in places]
        count = shared + sum(own) + 3
        order = torch.randperm(count).tolist()
        self.k, self.v = (torch.randn(count, page_size, heads[1], size, dtype=dtype) for size in (d, w))
        self.q = torch.randn(heads[0], sum(new), d, dtype=dtype)
        common, rest = order[:shared], order[shared:]
        self.table = torch.full((len(lengths), max(1, *places)), -7, dtype=torch.int32)
        for request, (every, mine) in enumerate(zip(places, own, strict=True)):
            row = common[:every] + [rest.pop() for _ in range(mine)]
            self.table[request, :every] = torch.tensor(row, dtype=torch.int32)

    @property
    def starts(self):
        return torch.tensor([0, *torch.tensor(self.new).cumsum(0).tolist()], dtype=torch.int32)

    def keys_of(self, request):
        """Keys and values of a request, (KV heads, keys, width)."""
        length = int(self.lengths[request])
        pages = self.table[request, : -(-length // self.page_size)].long()
        return [pool[pages].flatten(0, 1)[:length].transpose(0, 1) for pool in (self.k, self.v)]


def exact(requests, *, causal=False, window=None, scale=None, softcap=None, sinks=None, scales=None):
    """Outputs (heads, tokens, width) and log-sum-exps of packed queries, in float64."""
    pools = requests.k, requests.v
    if scales is not None:
        pools = [pool.double() * each.double()[:, None, :, None] for pool, each in zip(pools, scales, strict=True)]
    outputs, sums, q = [], [], requests.q.double()
    size, at = requests.page_size, 0
    for request, new in enumerate(requests.new):
        length = int(requests.lengths[request])
        pages = requests.table[request, : -(-length // size)].long()
        k, v = (pool[pages].flatten(0, 1)[:length].transpose(0, 1).double() for pool in pools)
        group = q.shape[0] // k.shape[0]
        k, v = k.repeat_interleave(group, 0), v.repeat_interleave(group, 0)
        scores = q[:, at : at + new] @ k.mT * (q.shape[-1] ** -0.5 if scale is None else scale)
        if softcap is not None:
            scores = softcap * torch.tanh(scores / softcap)
        own = torch.arange(length - new, length)[:, None]
        here = torch.arange(length)
        left, right = (-1, -1) if window is None else window if isinstance(window, tuple) else (window - 1, 0)
        right = 0 if causal else right
        hidden = torch.zeros(new, length, dtype=torch.bool)
        hidden |= (here > own + right) if right >= 0 else False
        hidden |= (here < own - left) if left >= 0 else False
        scores = scores.masked_fill(hidden, -torch.inf)
        if sinks is not None:
            scores = torch.cat((scores, sinks.double()[:, None, None].expand(-1, new, 1)), -1)
        lse = torch.logsumexp(scores, -1) if scores.shape[-1] else scores.new_full((q.shape[0], new), -torch.inf)
        weights = torch.exp(scores - torch.where(lse == -torch.inf, 0.0, lse)[..., None])
        outputs.append(weights[..., :length] @ v)
        sums.append(lse)
        at += new
    return torch.cat(outputs, 1), torch.cat(sums, 1)
