import subprocess
import sys

import pytest
import torch
from tests.approximation.running.problems import bounded, exact, furthest

from attenio.approximation import AttentionData, Scores, Terms, certificate_for, certify
from attenio.approximation.polynomials import Kind
from attenio.approximation.running import approximate_attention, certify_tensors
from attenio.elements import ElementType
from attenio.errors import InvalidInput, how_to_install

TYPES = [torch.float32, torch.float16, torch.bfloat16, torch.float64]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("radius", "tolerance", "d"), [(1.0, 0.3, 8), (1.0, 0.1, 16), (0.5, 1e-2, 12), (2.0, 1e-2, 5)])
@pytest.mark.parametrize("kind", list(Kind))
def test_no_output_is_further_from_exact_than_guaranteed(
    dtype: torch.dtype, causal: bool, radius: float, tolerance: float, d: int, kind: Kind
) -> None:
    query, key, value = (t.to(dtype) for t in bounded(radius=radius, d=d, group=2))
    options = {"is_causal": causal, "enable_gqa": True, "kind": kind}
    certificate = certify_tensors(query, key, value, tolerance=tolerance, **options)
    output = approximate_attention(query, key, value, tolerance=tolerance, **options)
    assert output.dtype == dtype
    assert certificate.truncation_error + certificate.rounding_error <= tolerance
    assert furthest(output, exact(query, key, value, causal=causal)) <= certificate.guaranteed_change


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("tolerance", [0.1, 1e-3])
def test_tiles_columns_and_centring_change_nothing_but_roundings(causal: bool, tolerance: float) -> None:
    query, key, value = bounded(radius=0.8, n=70, group=3, d=6)
    options = {"tolerance": tolerance, "is_causal": causal, "enable_gqa": True}
    whole = approximate_attention(query, key, value, **options)
    for rows, columns in ((9, None), (33, 2), (70, 6), (512, 100)):
        tiled = approximate_attention(query, key, value, rows=rows, value_columns=columns, **options)
        torch.testing.assert_close(tiled, whole)


def test_other_lengths_widths_and_batches_are_those_of_exact_attention() -> None:
    query, key, value = bounded(radius=0.7, n=20, m=50, heads=3)
    for shape in ((3,), (3, 1), (1, 3), ()):
        parts = [t[0] if shape else t[0, 0] for t in (query, key, value)]
        shaped = [t.reshape(*shape, *t.shape[-2:]) for t in parts]
        output = approximate_attention(*shaped, tolerance=1e-3)
        assert output.shape == exact(*shaped).shape
        assert furthest(output, exact(*shaped)) <= 1e-3


def test_a_layout_with_heads_inside_is_read_as_it_is() -> None:
    query, key, value = (t.transpose(1, 2).contiguous().transpose(1, 2) for t in bounded(radius=0.7))
    assert not query.is_contiguous()
    assert furthest(approximate_attention(query, key, value, tolerance=1e-2), exact(query, key, value)) <= 1e-2


def test_sizes_of_queries_and_keys_may_be_far_apart() -> None:
    query, key, value = (t.to(torch.float32) for t in bounded(radius=1.0))
    output = approximate_attention(query * 2.0**60, key * 2.0**-60, value, tolerance=2e-3)
    assert furthest(output, exact(query, key, value)) <= 2e-3


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_values_that_sums_cannot_hold_are_refused_and_never_come_back_broken(dtype: torch.dtype) -> None:
    query, key, value = (t.to(dtype) for t in bounded(radius=0.5, d=4))
    for factor, said in (
        (torch.finfo(dtype).max, "outputs are not finite"),
        (2.0**-130, "use exact: values differ by"),
    ):
        scaled = (value / value.abs().max() * factor).to(dtype)
        with pytest.raises(InvalidInput, match=said):
            approximate_attention(query, key, scaled, tolerance=0.1)


def test_values_that_do_not_vary_come_back() -> None:
    query, key, value = bounded(radius=1.0)
    torch.testing.assert_close(approximate_attention(query, key, torch.ones_like(value), tolerance=0.1), value * 0 + 1)


def test_keys_that_are_all_equal_need_no_degree() -> None:
    query, _, value = bounded(radius=1.0)
    key = torch.full((1, 2, 90, 8), 0.25, dtype=torch.float64)
    assert certify_tensors(query, key, value, tolerance=0.1).degree == 0
    output = approximate_attention(query, key, value, tolerance=0.1)
    torch.testing.assert_close(output, value.mean(-2, keepdim=True).expand_as(output))


def test_scores_that_reach_too_far_say_which_degree_it_would_take() -> None:
    query, key, value = bounded(radius=6.0, d=64)
    with pytest.raises(InvalidInput, match=r"^use exact: degree \d+ would do, but it takes [\d,]+ features"):
        approximate_attention(query, key, value, tolerance=1e-2)
    with pytest.raises(InvalidInput, match=r"^use exact: .* degree \d+"):
        approximate_attention(query * 100, key, value, tolerance=1e-2)


def test_a_certificate_from_bounds_is_kept_to() -> None:
    query, key, value = bounded(radius=0.5)
    stated = certificate_for(Scores(d=8, keys=90, radius=1.0, value_bound=1.3), Terms(tolerance=0.1))
    assert furthest(approximate_attention(query, key, value, certificate=stated), exact(query, key, value)) <= 0.13
    with pytest.raises(InvalidInput, match=r"scores may reach .* over the 1 of the certificate"):
        approximate_attention(query * 8, key, value, certificate=stated)
    with pytest.raises(InvalidInput, match=r"TiledSummation\(direct=True\)"):
        approximate_attention(query, key, value, certificate=stated, is_causal=True)
    with pytest.raises(InvalidInput, match="the certificate is for d = 8"):
        approximate_attention(query[..., :5], key[..., :5], value, certificate=stated)
    with pytest.raises(InvalidInput, match="leave kind out") as problem:
        approximate_attention(query, key, value, certificate=stated, kind=Kind.TAYLOR)
    assert "\n" not in str(problem.value)


@pytest.mark.parametrize("causal", [False, True])
def test_a_certificate_from_every_score_is_run_with_its_centre_and_as_near_as_it_says(causal: bool) -> None:
    query, key, value = (t[0, 0].float() for t in bounded(radius=1.5, heads=1, d=6))
    arrays = (t.numpy() for t in (query, key, value))
    terms = Terms(tolerance=2e-2, dtype=ElementType.FP32)
    (found,) = certify(AttentionData.of(*arrays, causal=causal), terms)
    centre = torch.from_numpy(found.centre)
    output = approximate_attention(query, key, value, certificate=found.certificate, centre=centre, is_causal=causal)
    assert furthest(output, exact(query, key, value, causal=causal)) <= found.certificate.guaranteed_change


@pytest.mark.parametrize("tolerance", [0.0, -1.0, float("nan"), float("inf")])
def test_a_tolerance_that_is_none_is_refused_in_one_line(tolerance: float) -> None:
    with pytest.raises(InvalidInput, match="tolerance"):
        approximate_attention(*bounded(radius=0.5), tolerance=tolerance)


@pytest.mark.parametrize("which", [0, 1, 2])
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_data_that_are_not_finite_are_refused(which: int, bad: float) -> None:
    tensors = list(bounded(radius=0.5))
    tensors[which][0, 1, 3, 2] = bad
    with pytest.raises(InvalidInput, match="not finite"):
        approximate_attention(*tensors, tolerance=0.1)


def test_shapes_that_do_not_belong_together_are_refused() -> None:
    query, key, value = bounded(radius=0.5, n=10, m=20, group=2)
    for options, said in (({}, "enable_gqa=True"), ({"enable_gqa": True, "is_causal": True}, "use DecodeState")):
        with pytest.raises(InvalidInput, match=said):
            approximate_attention(query, key, value, tolerance=0.1, **options)
    for tensors, said in (
        ((query[..., :3], key, value), "d = 3"),
        ((query, key, value[:, :, :5]), "differ before"),
        ((query.float(), key, value), "one type"),
        ((query.int(), key, value), "int32"),
        ((query[:, :3], key, value), "do not belong"),
        ((query[:, :, :0], key, value), "at least one"),
    ):
        with pytest.raises(InvalidInput, match=said):
            approximate_attention(*tensors, tolerance=0.1, enable_gqa=True)
    with pytest.raises(InvalidInput, match="neither tolerance nor certificate"):
        approximate_attention(query, key, value, enable_gqa=True)


def test_a_keyword_that_is_none_is_refused_with_the_closest() -> None:
    tensors = bounded(radius=0.5)
    with pytest.raises(TypeError, match=r"approximate_attention\(\) got .* 'center'; did you mean centre\?"):
        approximate_attention(*tensors, tolerance=0.1, center=False)
    with pytest.raises(TypeError, match=r"certify_tensors\(\) got an unexpected keyword argument 'rows'"):
        certify_tensors(*tensors, tolerance=0.1, rows=8)


def test_without_torch_one_line_names_the_extra() -> None:
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import attenio, attenio.approximation\n"
        "from attenio.approximation.running import approximate_attention\n"
        "try: approximate_attention(None, None, None, tolerance=0.1)\n"
        "except ImportError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    expected = f"approximate attention on tensors needs the 'torch' extra: {how_to_install('torch')}"
    assert done.stdout.strip() == expected
