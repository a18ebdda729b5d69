"""The operators' arguments: their schemas, and what is visible flattened into them and back."""

import torch

from attenio.kernels.call.visibility import UNBOUNDED, Visibility
from attenio.kernels.torch_operator.operators import attention_backward_operator, attention_operator
from attenio.kernels.torch_operator.schema import Arguments, BackwardArguments

# As exported programs call them.
SEEN = (
    "Tensor query, Tensor key, Tensor value, Tensor? bias, Tensor? first, Tensor? stop, Tensor? query_ids,"
    " Tensor? key_ids, Tensor? blocks, Tensor? seed"
)
BAND = "float scale, SymInt below, SymInt above, SymInt query_block, SymInt key_block"
# With defaults: programs of before do not give them.
MORE = "Tensor? sinks=None, float softcap=0., SymInt segments=0"
FORWARD = f"({SEEN}, {BAND}, SymInt prefix, float dropout_p, bool deterministic, {MORE}) -> (Tensor, Tensor, Tensor)"
BACKWARD = (
    f"({SEEN}, Tensor output, Tensor largest, Tensor total, Tensor gradient, {BAND}, float dropout_p,"
    f" bool deterministic, bool with_bias, {MORE}) -> (Tensor, Tensor, Tensor, Tensor)"
)


def test_programs_that_were_exported_still_find_the_operators():
    assert str(attention_operator._opoverload._schema) == f"attenio::attention{FORWARD}"
    assert str(attention_backward_operator._opoverload._schema) == f"attenio::attention_backward{BACKWARD}"


def test_what_is_visible_comes_back_from_the_arguments_of_both_operators():
    heads = torch.randn(2, 6, 5, 4), torch.randn(2, 2, 7, 4), torch.randn(2, 2, 7, 4)
    tensors = {name: torch.randn(1) for name in ("bias", "first", "stop", "query_ids", "key_ids", "blocks")}
    visible = Visibility(**tensors, below=-3, above=UNBOUNDED, query_block=4, key_block=8, segments=5, group=3)
    rest = {"seed": None, "scale": 0.5, "dropout_p": 0.0, "deterministic": False}
    forward = Arguments(*heads, **visible.flattened(), **rest, prefix=0)
    results = dict.fromkeys(("output", "largest", "total", "gradient"), heads[0])
    backward = BackwardArguments(*heads, **visible.flattened(), **rest, **results, with_bias=False)
    for given in (forward, backward):
        *tensors, sinks = given.tensors
        assert (*tensors, *given.numbers, sinks, given.softcap, 5) == tuple(given) and given.numbers[0] == 0.5
        for name, mine in Visibility.unflattened(given)._asdict().items():
            assert mine is getattr(visible, name)
