"""Sums of dQ in whole numbers of grains: bits that no order changes, and nothing that overflows."""

import pytest
import torch
from gluon_interpreter import Box, interpreted, launch

from attenio.kernels.gluon import backward
from attenio.kernels.problem import KernelProblem
from attenio.kernels.visibility import UNBOUNDED, Visibility

SERVICE = "attenio.kernels.gluon.backward_service"


class Sums(Box):
    """A box that can be added to."""

    def add(self, place, tile):
        self.write(place, self.read(place) + tile.reshape(self.shape))


class Heads:
    """Two sequences of two KV heads with two query heads each, and what the forward pass leaves of them."""

    def __init__(self, queries, keys, d, above=UNBOUNDED, dtype=torch.bfloat16):
        torch.manual_seed(0)
        self.queries, self.keys, self.d, self.above, self.scale = queries, keys, d, above, d**-0.5
        shapes = (2, 2, 2, queries, d), (2, 2, 1, keys, d), (2, 2, 1, keys, d), (2, 2, 2, queries, d)
        self.q, self.k, self.v, self.gradient = (torch.randn(shape).to(dtype) for shape in shapes)

    def attend(self):
        q, k, v, gradient = (x.double() for x in (self.q, self.k, self.v, self.gradient))
        hidden = torch.ones(self.queries, self.keys).tril(min(self.above, self.keys)) == 0
        scores = (q @ k.mT * self.scale).masked_fill(hidden, -torch.inf)
        self.lse = torch.logsumexp(scores, -1).nan_to_num(neginf=torch.inf)
        weights = torch.exp(scores - self.lse[..., None])
        output = (weights @ v).to(self.q.dtype).double()
        self.delta = (output * gradient).sum(-1).float()
        slopes = weights * (gradient @ v.mT - (weights @ v * gradient).sum(-1, keepdim=True))
        return slopes @ k * self.scale

    def fineness(self):
        """A power of two, two thirds of 2^31 at most where a row reaches the bound of the module's docstring."""
        largest = self.k.float().abs().amax(-1)
        product = (self.v.float().norm(dim=-1) * largest).amax(-1)
        most = self.gradient.float().norm(dim=-1) * product + self.delta.abs() * largest.amax(-1)
        return torch.exp2(torch.floor(torch.log2(2.0**31 / 1.5 / most)))

    def sums(self, dtype, shuffled=None):
        """Sums of dQ by the kernel, interpreted, in rows; of integers in grains."""
        module = interpreted("attenio.kernels.gluon.backward_narrow", needing=(SERVICE,))
        module.add_sums.__globals__["_reduce_add"] = lambda box, place, source: box.add(place, source.tensor)
        form, padded = backward.backward_form(self.d), -(-self.queries // 128) * 128
        padding = (0, padded - self.queries)
        lse = torch.nn.functional.pad(self.lse.float() * backward.LOG2_E, padding, value=torch.inf)
        delta, fineness = (torch.nn.functional.pad(x, padding) for x in (self.delta, self.fineness()))
        q, k, v, gradient = (x.flatten(1, 2) for x in (self.q, self.k, self.v, self.gradient))
        dk, dv = torch.zeros_like(k), torch.zeros_like(v)
        sums = torch.zeros(1, 1, 8 * padded * form.d // 64, 64, dtype=dtype)
        rows, small = (1, 1, form.rows, form.d), (1, 1, 64, form.d)
        launch(
            module.narrow_gradients_kernel, (-(-self.keys // form.keys) * 4,),
            Box(q, rows), Box(k, small), Box(v, small), Box(gradient, rows), Box(dk, small), Box(dv, small),
            Sums(sums, (1, 1, 64, 64)), lse.flatten(), delta.flatten(), None, None,
            self.scale * backward.LOG2_E, self.scale, 0, 2, 2, self.keys, -(2**30), min(self.above, 2**30),
            0, self.queries, padded, ROWS=form.rows, KEYS=form.keys, D=form.d, STAGES=form.stages, SLOTS=form.slots,
            HIDES=True, PACKED=False, **form.choices, REGISTERS=form.registers, Fineness=fineness.flatten(),
            shuffled=shuffled,
        )  # fmt: skip
        # Tiles of 64 x 64 lie in memory as registers of a product hold them.
        tiles = sums.view(-1, 8, 4, 8, 4, 2, 2).permute(0, 2, 5, 3, 1, 4, 6).reshape(-1, form.d // 64, 64, 64)
        return tiles.transpose(1, 2).reshape(2, 2, 2, padded, form.d)[..., : self.queries, :]


@pytest.mark.parametrize("queries, keys, d, above", [(200, 600, 64, UNBOUNDED), (150, 400, 128, 230)])
def test_bits_are_those_of_any_order_and_gradients_are_right(queries, keys, d, above):
    heads = Heads(queries, keys, d, above)
    right = heads.attend()
    found = heads.sums(torch.int32)
    assert torch.equal(found, heads.sums(torch.int32, shuffled=1))
    assert not torch.equal(heads.sums(torch.float32), heads.sums(torch.float32, shuffled=1))
    dq = found.double() / heads.fineness()[..., None] * heads.scale
    assert (dq - right).norm() <= 5e-3 * right.norm()


def test_a_row_that_reaches_its_bound_does_not_overflow():
    heads = Heads(128, 256, 64)
    # Half of the keys pull a row up and half pull it down, each as far as its gradient's length allows.
    heads.q.zero_()
    heads.k.fill_(3.0)
    heads.v[..., 0::2, :], heads.v[..., 1::2, :] = 1.0, -1.0
    heads.k[..., 1::2, :] = -3.0
    heads.gradient.fill_(2.0)
    heads.attend()
    found = heads.sums(torch.int32)
    # Lengths of 16 and 8, times 3.
    assert (found == 384 * 2**21).all()


def problem_of(keys, dtype, below=-UNBOUNDED):
    heads = (torch.empty(1, 2, keys, 64, dtype=dtype) for _ in range(3))
    return KernelProblem.of_heads(*heads, Visibility(group=1, below=below, above=0), 1.0, deterministic=True)


@pytest.mark.parametrize("dtype, keys", [(torch.bfloat16, 2**16), (torch.float16, 2**13)])
def test_integer_sums_are_for_as_many_keys_as_their_rounding_allows(dtype, keys):
    assert backward.supports(problem_of(keys, dtype))
    assert not backward.supports(problem_of(keys + 1, dtype))
    assert backward.supports(problem_of(keys + 1, dtype, below=-1000))
