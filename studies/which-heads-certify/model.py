"""A small causal transformer over bytes, trained on the documentation of this repository."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, gelu, scaled_dot_product_attention

ROOT = Path(__file__).parents[2]
VOCABULARY = 256


@dataclass(frozen=True, kw_only=True)
class Shape:
    """How large a model is and how long it learns."""

    heads: int
    d: int
    layers: int = 3
    context: int = 128
    batch: int = 8
    steps: int = 700
    rate: float = 3e-3

    @property
    def width(self) -> int:
        return self.heads * self.d


class Block(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.before, self.after = nn.LayerNorm(shape.width), nn.LayerNorm(shape.width)
        self.projections = nn.Linear(shape.width, 3 * shape.width, bias=False)
        self.output = nn.Linear(shape.width, shape.width, bias=False)
        self.widen, self.narrow = nn.Linear(shape.width, 4 * shape.width), nn.Linear(4 * shape.width, shape.width)

    def rows(self, x: Tensor) -> tuple[Tensor, ...]:
        """Queries, keys and values: (batch, heads, n, d)."""
        parts = self.projections(self.before(x)).chunk(3, dim=-1)
        return tuple(part.unflatten(-1, (self.shape.heads, self.shape.d)).transpose(1, 2) for part in parts)

    def forward(self, x: Tensor) -> Tensor:
        attended = scaled_dot_product_attention(*self.rows(x), is_causal=True)
        x = x + self.output(attended.transpose(1, 2).flatten(2))
        return x + self.narrow(gelu(self.widen(self.after(x))))


class Model(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.tokens, self.places = nn.Embedding(VOCABULARY, shape.width), nn.Embedding(shape.context, shape.width)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.last, self.logits = nn.LayerNorm(shape.width), nn.Linear(shape.width, VOCABULARY)
        for embedding in (self.tokens, self.places):
            nn.init.normal_(embedding.weight, std=0.02)  # small, so that blocks have a say from the first step

    def embedded(self, text: Tensor) -> Tensor:
        return self.tokens(text) + self.places(torch.arange(text.shape[1]))

    def forward(self, text: Tensor) -> Tensor:
        x = self.embedded(text)
        for block in self.blocks:
            x = block(x)
        return self.logits(self.last(x))

    @torch.no_grad()
    def heads(self, text: Tensor) -> list[tuple[Tensor, ...]]:
        """Queries, keys and values of every layer on this text."""
        x, found = self.embedded(text), []
        for block in self.blocks:
            found.append(block.rows(x))
            x = block(x)
        return found


def corpus() -> Tensor:
    """The pages of the documentation, one after the other, in a fixed order."""
    pages = [
        ROOT / "README.md",
        ROOT / "ARCHITECTURE.md",
        ROOT / "CONTRIBUTING.md",
        *sorted((ROOT / "docs").rglob("*.md")),
    ]
    text = b"\n\n".join(page.read_bytes() for page in pages if "_build" not in page.parts)
    return torch.tensor(list(text), dtype=torch.long)


def pieces(text: Tensor, count: int, length: int, draw: torch.Generator) -> Tensor:
    starts = torch.randint(len(text) - length, (count,), generator=draw)
    return torch.stack([text[start : start + length] for start in starts])


def train(shape: Shape, text: Tensor, seed: int, progress: Callable[[int, float], None]) -> tuple[Model, list[float]]:
    """A trained model and its losses, in nats a byte; the same for the same seed, text, threads and PyTorch."""
    torch.manual_seed(seed)
    draw = torch.Generator().manual_seed(seed)
    model = Model(shape)
    optimiser = torch.optim.AdamW(model.parameters(), lr=shape.rate, weight_decay=0.1, betas=(0.9, 0.98))
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, max_lr=shape.rate, total_steps=shape.steps)
    losses = []
    for step in range(shape.steps):
        sample = pieces(text, shape.batch, shape.context + 1, draw)
        loss = cross_entropy(model(sample[:, :-1]).flatten(0, 1), sample[:, 1:].flatten())
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        schedule.step()
        losses.append(float(loss.detach()))
        progress(step, losses[-1])
    return model.eval(), losses
