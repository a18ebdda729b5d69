"""Decode: all ranks have the queries, keys and values are spread over them, and all get the output.

O, lse = attention(queries, own keys)
send both to every other rank
add up those of all ranks, in the order of ranks: the same bits everywhere
"""

import torch
from torch import Tensor

from attenio.cluster.executor.blocks import Block, Outputs
from attenio.cluster.executor.call import ClusterCall
from attenio.cluster.executor.messages import pack, packed_bytes, unpack
from attenio.cluster.executor.transport import Leg, Network
from attenio.cluster.words import Stage
from attenio.errors import InvalidInput
from attenio.workload import Direction

PARTIAL_OUTPUTS = Leg(Direction.FORWARD, Stage.REDUCE_OUTPUTS)


def attend_replicated(network: Network, call: ClusterCall, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """The output, on every rank."""
    if torch.is_grad_enabled() and any(each.requires_grad for each in (query, key, value)):
        raise InvalidInput("replicated queries are for decode, without gradients; shard queries by tokens, Shard(2)")
    work, rank = call.assignment, network.rank
    found, start = Outputs.of_nothing(query, call.value[3]), 0
    queries = (0, call.query[2])
    for keys in work.keys[rank]:
        stop = start + keys[1] - keys[0]
        if stop > start:
            block = Block(queries=queries, keys=keys, work=work, scale=call.scale)
            found.add(slice(0, queries[1]), *block.attend(query, key[:, :, start:stop], value[:, :, start:stop]))
        start = stop
    mine = found.lse, found.output.to(query.dtype)
    shapes = [(tuple(each.shape), each.dtype) for each in mine]
    others = [other for other in range(network.size) if other != rank]
    message = pack(mine)
    posted = network.post(
        PARTIAL_OUTPUTS,
        [(other, message) for other in others],
        [(other, packed_bytes(shapes)) for other in others],
        query,
    )
    came = dict(zip(others, posted.wait(), strict=True))
    whole = Outputs.of_nothing(query, call.value[3])
    for source in range(network.size):
        lse, output = mine if source == rank else unpack(came[source], shapes)
        whole.add(slice(0, queries[1]), output, lse)
    return whole.output.to(query.dtype)
