"""Calls of a form that is known are refused as if they were the first, where something about them is wrong."""

import inspect

import pytest
import torch
from tests.kernels.cpu.test_beside import DOOR, anew, drawn  # noqa: F401 - a fixture of all tests here

from attenio import attention, explain
from attenio.errors import AttenioError


def test_what_was_right_once_does_not_let_through_what_is_wrong():
    q, k, v = drawn()
    attention(q, k, v)
    for wrong in ({"is_causal": 0}, {"enable_gqa": 0}, {"deterministic": 0}, {"window": 2.0}, {"scale": "1"}):
        with pytest.raises(AttenioError):
            attention(q, k, v, **wrong)
    for tensors in ((q, k.double(), v), (q, k, v.to("meta")), (q, None, v), (q, k[:, :, :5], v)):
        with pytest.raises(AttenioError):
            attention(*tensors)


WRONG = {
    "values of another length": (lambda q, k, v: (q, k, v[:, :, :-1]), {}),
    "keys of another type": (lambda q, k, v: (q, k.double(), v), {}),
    "values of another type": (lambda q, k, v: (q, k, v.bfloat16()), {}),
    "keys elsewhere": (lambda q, k, v: (q, k.to("meta"), v), {}),
    "values elsewhere": (lambda q, k, v: (q, k, v.to("meta")), {}),
    "a number for a switch": (lambda q, k, v: (q, k, v), {"is_causal": 0}),
    "another switch": (lambda q, k, v: (q, k, v), {"enable_gqa": 0}),
    "as many bytes of values in other heads": (lambda q, k, v: (q, k, v.reshape(1, 2, 66, 16)), {}),
    "as many bytes of values of another width": (lambda q, k, v: (q, k, v.reshape(1, 4, 66, 8)), {}),
    "values in other heads of groups": (
        lambda q, k, v: (q, k[:, :2], v[:, :2].reshape(1, 1, 66, 16)),
        {"enable_gqa": True},
    ),
    "a mask elsewhere": (lambda q, k, v: (q, k, v, torch.ones(33, 33, device="meta") > 0), {}),
    "a mask that is added elsewhere": (lambda q, k, v: (q, k, v, torch.ones(33, 33, device="meta")), {}),
    "a mask of another length": (lambda q, k, v: (q, k, v, torch.ones(33, 32) > 0), {}),
    "a mask of integers": (lambda q, k, v: (q, k, v, torch.ones(33, 33).int()), {}),
    "complex numbers": (lambda q, k, v: (q + 0j, k + 0j, v + 0j), {}),
    "rows by themselves": (lambda q, k, v: (q[0, 0, 0], k[0, 0, 0], v[0, 0, 0]), {}),
    "no argument of it": (lambda q, k, v: (q, k, v), {"sink": 1}),
    "no tensor": (lambda q, k, v: (q, k, None), {}),
    "a list": (lambda q, k, v: (q.tolist(), k, v), {}),
    "an option that is none": (lambda q, k, v: (q, k, v), {"scale": []}),
}


def test_a_number_for_a_switch_is_refused_also_where_a_window_is_looked_up():
    q, k, v = drawn()
    for options in ({"window": 8}, {"window": 8, "is_causal": True}):
        attention(q, k, v, **options)
        for wrong in ({"is_causal": int(options.get("is_causal", False))}, {"enable_gqa": 0}):
            with pytest.raises(AttenioError):
                attention(q, k, v, **{**options, **wrong})


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("gradients", [False, True])
def test_a_wrong_call_of_a_known_form_is_refused_as_if_it_was_the_first(name, gradients):
    q, k, v = (each.requires_grad_(gradients) for each in drawn())
    change, options = WRONG[name]
    wrong = change(q, k, v)
    with torch.set_grad_enabled(gradients):
        with pytest.raises((AttenioError, TypeError)) as first:
            attention(*wrong, **options)
        attention(q, k, v)
        with pytest.raises(first.type) as then:
            attention(*wrong, **options)
        assert str(then.value) == str(first.value)


def test_attention_says_all_its_arguments_and_means_them():
    names = list(inspect.signature(attention).parameters)
    assert names[:9] == [
        "query",
        "key",
        "value",
        "attn_mask",
        "dropout_p",
        "is_causal",
        "scale",
        "enable_gqa",
        "window",
    ]
    further = set(names[8:])
    assert further == set(DOOR.Options.__annotations__) <= set(inspect.signature(explain).parameters)


@pytest.mark.parametrize(
    ("given", "meant"),
    [("causal", "is_causal"), ("sink", "sinks"), ("dropout", "dropout_p"), ("softmax_scale", "scale"), ("xyz", None)],
)
@pytest.mark.parametrize("function", [attention, explain])
def test_an_argument_that_there_is_not_is_refused_with_the_one_that_was_meant(function, given, meant):
    with pytest.raises(TypeError) as refused:
        function(*drawn(), **{given: 1})
    hint = f"; did you mean {meant}?" if meant else ""
    assert str(refused.value) == f"{function.__name__}() got an unexpected keyword argument '{given}'{hint}"
