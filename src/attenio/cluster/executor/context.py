"""``context_parallel(mesh)``: models of transformers with ``attn_implementation="attenio"`` on sharded sequences.

with context_parallel(mesh) as context:
    batch = context.shard(input_ids=ids, labels=labels)  # this rank's tokens, their positions and their next tokens
    loss = model(**batch).loss                           # its share of the mean over all tokens
    loss.backward()
    context.sum_gradients(model)

Everything in such a model but attention works on one token at a time, so every rank runs it on its own tokens. Tokens
are in zigzag order, so that all ranks compute as many scores under a causal mask, or as planned strips or patches have
them.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from attenio.cluster.executor.attention import attend_shares, network_of
from attenio.cluster.executor.call import Spread, cluster_call, named_sharding, spans
from attenio.cluster.executor.transport import Ledger
from attenio.cluster.partition import Sharding
from attenio.errors import InvalidInput
from attenio.kernels.call.arguments import CallArguments
from attenio.kernels.transformers import Layer, instead_of_attention
from attenio.quantities import show_shape

# What transformers leave out of a loss.
IGNORED = -100


@dataclass(kw_only=True)
class Context:
    """A mesh whose ranks share sequences, and how long the sequences are that were sharded last."""

    mesh: Any
    sharding: Spread
    tokens: int | None = field(default=None)

    @property
    def ledger(self) -> Ledger:
        """What this rank sent so far."""
        return network_of(self.mesh).ledger

    def positions(self, tokens: int) -> Tensor:
        """The positions of this rank's tokens."""
        mine = spans(tokens, tuple(self.mesh.shape), self.sharding)[network_of(self.mesh).rank]
        return torch.cat([torch.arange(start, stop, device="cpu") for start, stop in mine])

    def shard(self, *, input_ids: Tensor, labels: Tensor | None = None) -> dict[str, Any]:
        """This rank's part of whole sequences (batch, tokens), as a model takes it.

        Labels become those of the next tokens, before they are cut: the next token may be another rank's. The loss is
        this rank's part of the mean over all tokens, so that losses and gradients of all ranks are to be added.
        """
        if input_ids.dim() != 2 or (labels is not None and labels.shape != input_ids.shape):
            raise InvalidInput(
                f"input_ids has shape {show_shape(input_ids.shape)}; give (batch, tokens), and labels like it"
            )
        self.tokens = int(input_ids.shape[1])
        mine = self.positions(self.tokens).to(input_ids.device)
        found: dict[str, Any] = {
            "input_ids": input_ids[:, mine],
            "position_ids": mine[None].expand(input_ids.shape[0], -1),
            "use_cache": False,
        }
        if labels is not None:
            following = torch.nn.functional.pad(labels[:, 1:], (0, 1), value=IGNORED)
            found |= {
                "labels": labels[:, mine],
                "shift_labels": following[:, mine],
                "num_items_in_batch": int((following != IGNORED).sum()),
            }
        return found

    def sum_gradients(self, model: Any) -> None:
        """Add up the gradients of all ranks, so that every one has those of the whole batch."""
        ranks = [int(each) for each in self.mesh.mesh.flatten().tolist()]
        if len(ranks) != dist.get_world_size():
            raise InvalidInput(
                f"the mesh has {len(ranks)} of {dist.get_world_size()} ranks; add up gradients in a group of its own"
            )
        for parameter in model.parameters():
            if parameter.grad is not None:
                dist.all_reduce(parameter.grad)

    def attend(self, layer: Layer) -> Tensor:
        """One layer's attention over the sequences that were sharded last."""
        query, key, value = layer.query, layer.key, layer.value
        if self.tokens is None:
            raise InvalidInput("context_parallel knows no length; take the batch from its shard(input_ids=...)")
        if layer.attention_mask is not None or layer.dropout:
            what = "a mask" if layer.attention_mask is not None else f"a dropout of {layer.dropout}"
            raise InvalidInput(f"a layer came with {what}, which context_parallel does not spread; leave it out")
        owned = len(self.positions(self.tokens))
        if query.shape[2] != owned or key.shape[2] != owned:
            raise InvalidInput(
                f"a layer has {query.shape[2]:,} queries and {key.shape[2]:,} keys on a rank that has {owned:,} of"
                f" {self.tokens:,} tokens; take the batch from shard(...), without a cache"
            )
        shapes = tuple((*each.shape[:2], self.tokens, each.shape[3]) for each in (query, key, value))
        grouped = query.shape[1] != key.shape[1]
        asked = CallArguments(is_causal=layer.causal, window=layer.window, scale=layer.scale, enable_gqa=grouped)
        call = cluster_call(shapes, query.dtype, self.mesh, asked, self.sharding)
        network = network_of(self.mesh)
        network.agree(call.form)
        return attend_shares(network, call, query, key, value)


@contextmanager
def context_parallel(mesh: Any, *, sharding: Spread | str = Sharding.ZIGZAG) -> Iterator[Context]:
    """Within it, ``attn_implementation="attenio"`` attends over sequences that are spread over the mesh."""
    context = Context(mesh=mesh, sharding=named_sharding(sharding))
    with instead_of_attention(context.attend):
        yield context
