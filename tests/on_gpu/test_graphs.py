"""What CUDA graphs capture on a GPU: restrictions that live in memory are read again at every replay, or refused."""

import numpy as np
import pytest
import torch

from attenio import AttenioError, attention
from attenio.masks import BlockSparse


def drawn(*shape):
    return torch.randn(shape, device="cuda", dtype=torch.bfloat16)


def captured(call, *tensors):
    """A graph of a call, and what it writes."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        output = call(*tensors)
    return graph, output


def assert_replays(call, *tensors):
    """Other numbers in the same tensors give what the call itself gives for them."""
    call(*tensors)
    torch.cuda.synchronize()
    graph, output = captured(call, *tensors)
    for _ in range(2):
        for tensor in tensors:
            tensor.copy_(torch.randn_like(tensor))
        graph.replay()
        torch.testing.assert_close(output, call(*tensors), rtol=2**-6, atol=2**-7)


def test_a_block_mask_outlives_the_graph_that_reads_it():
    layout = np.tril(np.ones((4, 4), dtype=bool))
    masks = [BlockSparse.from_array(layout, query_block=64)]
    tensors = [drawn(2, 4, 256, 64) for _ in range(3)]
    assert_replays(lambda q, k, v: attention(q, k, v, block_mask=masks[0]), *tensors)
    graph, output = captured(lambda q, k, v: attention(q, k, v, block_mask=masks[0]), *tensors)
    wanted = attention(*tensors, block_mask=BlockSparse.from_array(layout, query_block=64))
    masks.clear()
    junk = [torch.zeros(16, device="cuda", dtype=torch.bool) for _ in range(100)]  # where the layout would have been
    graph.replay()
    torch.testing.assert_close(output, wanted, rtol=2**-6, atol=2**-7)
    assert not torch.stack(junk).any()


@pytest.mark.parametrize("option", ["cu_seqlens", "segment_ids"])
def test_packed_sequences_are_captured(option):
    given = {"cu_seqlens": torch.tensor([0, 100, 300]), "segment_ids": (torch.arange(300) >= 100).long()}[option].cuda()
    tensors = [drawn(1, 4, 300, 64) for _ in range(3)]
    assert_replays(lambda q, k, v: attention(q, k, v, **{option: given}), *tensors)


@pytest.mark.parametrize(
    "options", [{"block_mask": np.ones((4, 4), dtype=bool)}, {"dropout_p": 0.5}], ids=["new blocks", "dropout"]
)
def test_what_a_graph_cannot_repeat_is_refused(options):
    tensors = [drawn(1, 2, 256, 64) for _ in range(3)]
    attention(*tensors)
    torch.cuda.synchronize()
    with pytest.raises(AttenioError, match="CUDA graph"):
        captured(lambda q, k, v: attention(q, k, v, **options), *tensors)
    torch.cuda.synchronize()
    assert attention(*tensors).isfinite().all()
