"""``attention()``: the signature people know, the dataflow that this machine wants.

Calls on a CPU that PyTorch's own attention computes first are given to it after as few questions as possible. A kernel
leaves nothing of Python in the caches: what is asked of a tensor then takes a microsecond, but of the next one a tenth
of it; to hand on an option takes one as well, and to look at local variables nothing. So where it can be compiled a
function in C stands in front (``kernels/cpu/front.py``), which is told of the forms of these calls and is what others
import; it hands all other calls to the one that is written here. They are checked.
"""

from collections.abc import Callable
from functools import partial
from inspect import signature
from typing import Any, TypeVar, Unpack, cast

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn import Parameter
from torch.nn.functional import scaled_dot_product_attention

from attenio.approximation.entries import checked_positive
from attenio.errors import InvalidInput
from attenio.kernels.call.arguments import CallArguments, OfPyTorch, Options, spelled_out
from attenio.kernels.call.call import call_of, problem_of
from attenio.kernels.call.checks import NICKNAMES, autocast, check_switches, checked_dropout, refuse_tangents
from attenio.kernels.call.choice import follow_short_bytes
from attenio.kernels.call.jagged import is_jagged, jagged_of
from attenio.kernels.call.planner_masks import arguments_of
from attenio.kernels.call.scores import aligned, scores_of
from attenio.kernels.call.watching import is_unwatched
from attenio.kernels.choice import attend_pages
from attenio.kernels.cpu.beside import PLAIN, Form, Way, choose, known_way, way_of
from attenio.kernels.cpu.front import REFUSALS, Front, front_of
from attenio.kernels.cpu.library import is_any_type_fast
from attenio.kernels.cpu.library_calls import LAST_MASK, is_tame_now, met
from attenio.kernels.replay.repeating import Known, form_options, known_of, recalled, repeats_now
from attenio.kernels.tolerance import approximated
from attenio.kernels.torch_operator.autograd import again, operated, unwatched, with_lse
from attenio.kernels.torch_operator.schema import Arguments
from attenio.kernels.torch_operator.tracing import trace_in_place_of
from attenio.names import refuse_keyword

_type, _is_compiling, _is_grad_enabled = type, torch.compiler.is_dynamo_compiling, torch.is_grad_enabled
_BOOL, _ANY_TYPE, _WIDE_TYPES = torch.bool, is_any_type_fast(), frozenset((torch.float32, torch.float64))
_is_any_autocast_enabled, _transforms = torch._C._is_any_autocast_enabled, torch._C._are_functorch_transforms_active
# As beside.is_short has it; and the form of the last call that was looked up, as layers repeat it.
_short_bytes = 0
_plain: Form = ()
_only_key: tuple[Form, Way | None] = ((), None)
_front: Front | None = None
# Without another device that this PyTorch is built for nobody has to be asked for his.
_ONLY_CPUS = not (torch.backends.cuda.is_built() or torch.backends.mps.is_built() or torch.xpu._is_compiled())
_INFINITY = float("inf")
_NO_DROPOUT = 0.0  # the very object, if none is given
_Door = TypeVar("_Door", bound=Callable[..., Any])


def _begin_anew(number: int) -> None:
    global _short_bytes, _plain, _only_key
    _short_bytes, _plain, _only_key = number, (), ((), None)


follow_short_bytes(_begin_anew)


def _looked_up(form: Form, size: int | None = None) -> Way | None:
    """The way of calls of this form; of groups without gradients by the bits of their keys' bytes: a cache grows."""
    global _plain, _only_key
    way = way_of(form if size is None else (form[0], size.bit_length(), *form[2:-1], form[1][:-2]))
    if way is PLAIN:
        _plain = form
    elif way is not None:  # windows are not looked up here
        _only_key = form, way
    return way


def _behind_a_front(python: _Door) -> _Door:
    """Every argument by its name for whoever asks, and a function in C in front where there can be one."""
    global _front
    python.__signature__ = spelled_out(python)  # type: ignore[attr-defined]
    _front = front_of(python)
    if _front is None:
        return python
    follow_short_bytes(_front.forget)
    trace_in_place_of(_front.function, python)
    return cast(_Door, _front.function)


_OPTIONS = frozenset(Options.__annotations__)
# Those that known calls are found by.
_REPEATED = frozenset(("window", "deterministic"))


@_behind_a_front
def attention(  # noqa: C901, PLR0913 - the signature of scaled_dot_product_attention
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = _NO_DROPOUT,
    is_causal: bool | str = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    **more: Unpack[Options],
) -> Any:
    """softmax(Q K^T scale) V over (..., heads, tokens, width), by the best dataflow for this machine.

    The arguments up to ``enable_gqa`` mean what they mean in ``torch.nn.functional.scaled_dot_product_attention``,
    and so do the errors. ``is_causal`` lets query i see keys 0..i also where there are more keys than queries
    (top-left aligned, as there); ``is_causal="bottom-right"`` lets the last query see the last key, as FlashAttention
    has it. A row that may see nothing gives zeros. All restrictions hold together.

    ``window``: the last so many keys up to the query's own, or (left, right) keys on either side, -1 for all; the last
    query stands at the last key (bottom-right aligned, as all masks of attenio).
    ``cu_seqlens``: packed sequences that do not see each other, by their cumulative lengths 0, n1, n1+n2, ... up to the
    number of tokens; a pair for queries and keys that differ. Causality and windows count from the start and the end of
    each sequence. On a GPU they are read once, and again when they were written to; a CUDA graph or a compiled program
    takes them as they are.
    ``segment_ids``: one id for each token ((tokens,) or (batch, tokens)), or a pair for queries and keys; a query sees
    keys of its own id. Causality and windows count from the start and the end of the whole.
    ``segments``: the older name of both; what could be either is refused.
    ``block_mask``: a ``BlockSparse`` or a 2-D array of blocks of 64.
    ``mask``: one of ``attenio.masks``, such as ``SlidingWindow(width=1024)``, in place of ``is_causal``, ``window``,
    ``cu_seqlens``, ``block_mask`` and ``prefix``; it means what it means to the planner, so that ``Causal()`` is
    bottom-right aligned.
    ``prefix``: so many first keys are the same in all sequences of the batch; those of the first are read, once. Their
    gradients are those of each sequence.
    ``tolerance``: how far an output may move, in units of half the largest range of a column of ``value``: where data
    certify that a polynomial keeps to it, and that computes and moves less, it takes the place of the exponential. In
    all other cases, and where data cannot be looked at (``torch.compile``, ``vmap``, CUDA graphs), the call is exact.
    Rounding outputs to their type comes on top, as always. ``explain`` tells which way a call goes.
    ``sinks``: one logit for each query head, which takes weight in every row and gives nothing, as in gpt-oss.
    ``softcap``: scores s become softcap tanh(s / softcap) before masks are added, as in Gemma 2.
    ``return_lse``: gives ``(output, lse)``; lse (..., heads, queries) is the natural logarithm of the sum of
    exponentials of a row's scores, with that of its sink, in single precision or double for double; -inf for a row that
    sees nothing. It has gradients, without dropout.
    ``pages``: ``key`` and ``value`` are pages (pages, keys of a page, KV heads, width), as FlashAttention has them, of
    1 to 256 keys. ``pages`` (requests, places) has the pages of each request in order, ``lengths`` (requests,) its
    number of keys, those of its new tokens included. ``query`` is (requests, heads, new tokens, d), or
    (heads, tokens, d) with the ``cu_seqlens`` of queries where requests have different numbers of them. New tokens are
    the last of their request: ``is_causal`` (True or "bottom-right") and ``window`` count from there. A table in host
    memory, or a ``PageTable``, is checked, and what requests share is read once where that moves less. A table on a GPU
    is not waited for: the kernel reads no page outside, and rows of a request whose pages or length are impossible
    become NaN. ``page_scales``: what entries of keys and of values are multiplied by, (pages, KV heads) in float32, for
    pages in float8_e4m3fn or int8. Neither gradients nor masks by tensors are computed there.
    Jagged nested tensors (sequences, heads, tokens, width) are packed sequences, and give a jagged one: ``cu_seqlens``
    and what counts tokens of the whole batch are not given with them.
    ``deterministic``: asks for gradients that repeat to the bit, as ``torch.use_deterministic_algorithms`` does for
    everything; only those of heads up to 128 wide on Hopper GPUs otherwise may not, and sizes that are compiled for.
    """
    kind: Any = None  # a mask's type, or a window
    way: Way | None = None
    # whether PyTorch's function is called with the options as they are, and a mask was looked at for that
    plain = looks = False
    if (
        (not more or (len(more) == 1 and attn_mask is None and _type(kind := more.get("window")) is int))
        and (_type(query) is Tensor or _type(query) is Parameter)
        and (dropout_p is _NO_DROPOUT or (_type(dropout_p) is float and dropout_p == 0.0))
        and (is_causal is False or is_causal is True)
        and (enable_gqa is False or enable_gqa is True)
        and (scale is None or (_type(scale) is float and 0.0 < scale < _INFINITY))
        and (_ONLY_CPUS or query.is_cpu)
        and not _is_compiling()
    ):
        try:
            # PyTorch's function checks all but masks, and that there are as many values as keys.
            if more:
                keys, enabled = key.shape, _is_grad_enabled()
                form: Form = (query.shape, keys, query.dtype, is_causal, scale, enable_gqa, kind, enabled)
                way = way_of(form) if value.shape == keys and query.is_cpu else None
            else:
                if attn_mask is not None:
                    mask = LAST_MASK[0]
                    if mask[0]() is not attn_mask:
                        mask = met(attn_mask)
                    kind = mask[1]
                    if kind is not _BOOL and kind is not query.dtype:
                        raise TypeError
                if _is_grad_enabled():
                    keys = key.shape
                    if keys == value.shape:
                        form = (query.shape, keys, query.dtype, is_causal, scale, enable_gqa, kind, True)
                        if form == _only_key[0]:  # its weight is 1 whatever its score
                            way = _only_key[1]
                        else:
                            plain = form == _plain or (way := _looked_up(form)) is PLAIN
                        if plain and attn_mask is not None and kind is not _BOOL:
                            plain = looks = mask[2] == attn_mask._version or is_tame_now(attn_mask, mask)
                elif enable_gqa:
                    keys = key.shape
                    if keys == value.shape:
                        form = (query.shape, keys, query.dtype, is_causal, scale, True, kind, False)
                        plain = form == _plain or (way := _looked_up(form, key.nbytes)) is PLAIN
                elif (size := key.nbytes) == value.nbytes:
                    if 0 < size <= _short_bytes and (
                        _ANY_TYPE or (query.dtype in _WIDE_TYPES and not _is_any_autocast_enabled())
                    ):
                        plain = True
                    else:
                        form = (query.shape, size.bit_length(), query.dtype, is_causal, scale, False, kind, False)
                        plain = form == _plain or (way := _looked_up(form)) is PLAIN
                if plain:
                    if _front is not None:
                        given = query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa
                        _front.remember(given, dict(more), None, looks=looks)
                    if scale is None and not enable_gqa:
                        if not is_causal:
                            return scaled_dot_product_attention(query, key, value, attn_mask)
                        return scaled_dot_product_attention(query, key, value, attn_mask, is_causal=True)
                    return scaled_dot_product_attention(
                        query, key, value, attn_mask, is_causal=is_causal, scale=scale, enable_gqa=enable_gqa
                    )
            if way is not None and way is not PLAIN:
                if _front is not None and isinstance(way, partial):
                    given = query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa
                    _front.remember(given, dict(more), way)
                answer = way(query, key, value) if attn_mask is None else way(query, key, value, attn_mask)
                if answer is not None:
                    return answer
        except REFUSALS:
            pass
    elif _type(query) is Tensor and query.is_cuda and (not more or _REPEATED.issuperset(more)):
        tensors = (query, key, value) if attn_mask is None else (query, key, value, attn_mask)
        known = recalled(
            tensors, dropout_p, (is_causal, scale, enable_gqa, more.get("deterministic", False), more.get("window"))
        )
        if known is not None:
            return again(tensors, known)
    if more and not _is_compiling() and not _OPTIONS.issuperset(more):
        name = next(name for name in more if name not in _OPTIONS)
        refuse_keyword("attention()", name, signature(attention).parameters, NICKNAMES)
    return _attend(query, key, value, (attn_mask, dropout_p, is_causal, scale, enable_gqa), more)


def _attend(query: Tensor, key: Tensor, value: Tensor, plain: OfPyTorch, more: Options) -> Any:  # noqa: C901
    """``attention()`` by all its arguments; its own text says what they mean."""
    attn_mask, dropout_p, is_causal, scale, enable_gqa = plain
    asked: CallArguments | None = None  # to make one takes as long as to find a known call
    tolerance, plain_scores = None, True
    if _REPEATED.issuperset(more):
        window, deterministic = more.get("window"), more.get("deterministic", False)
    else:
        asked = CallArguments(*plain, **more)
        if asked.is_on_pages():
            check_switches(enable_gqa=enable_gqa, deterministic=asked.deterministic)
            # tables are read in host memory: a compiled program calls this as it is, and is not cut at every number
            attend = torch.compiler.disable(attend_pages) if _is_compiling() else attend_pages
            return attend(query, key, value, asked)
        window, tolerance, deterministic = asked.window, asked.tolerance, asked.deterministic
        plain_scores = asked.has_plain_scores()
    exact = plain_scores and tolerance is None and dropout_p.__class__ is float and dropout_p == 0.0
    if is_jagged(query, key, value):
        jagged = jagged_of(query, key, value, asked or CallArguments(*plain))
        packed: Options = {**more, "cu_seqlens": jagged.cu_seqlens}
        return jagged.restored(_attend(jagged.query, jagged.key, jagged.value, plain, packed))
    if _is_any_autocast_enabled():
        query, key, value, attn_mask = autocast(query, key, value, attn_mask)
    if isinstance(is_causal, str):
        is_causal, window = aligned(is_causal, window)
        asked = asked and asked._replace(is_causal=is_causal, window=window)
    if asked is not None and asked.mask is not None:
        asked = arguments_of(asked.mask, query, key, asked)
        window = asked.window
    options = (is_causal, scale, enable_gqa, deterministic, window)
    apart = window.__class__ is not bool and (asked is None or asked.is_unpacked())
    if apart and exact:
        way = known_way(query, key, value, attn_mask, options)
        if way is not None:
            try:
                answer = way(query, key, value) if attn_mask is None else way(query, key, value, attn_mask)
            except (AttributeError, TypeError, RuntimeError):
                answer = None
            if answer is not None:
                return answer
    if forward_ad._current_level >= 0:
        refuse_tangents(query, key, value, attn_mask, asked and asked.sinks)
    given = (query, key, value) if attn_mask is None else (query, key, value, attn_mask)
    known = None
    undropped = isinstance(dropout_p, (float, int)) and dropout_p == 0.0
    simple = undropped and apart and plain_scores and tolerance is None
    if simple and not (query is None or key is None or value is None) and is_unwatched(given):
        known = known_of(given, form_options(is_causal, scale, enable_gqa, deterministic, window))
        if known is not None and known.arguments is not None:
            return again(given, known)
    if asked is None:
        asked = CallArguments(attn_mask, dropout_p, is_causal, scale, enable_gqa, window, deterministic=deterministic)
    else:
        asked = asked._replace(attn_mask=attn_mask)
    return _attend_anew(given, asked, known, deterministic=repeats_now(deterministic))


def _attend_anew(given: tuple[Tensor, ...], asked: CallArguments, known: Known | None, *, deterministic: bool) -> Any:
    """A call that is not known yet: it is checked, and what is chosen for it runs."""
    check_switches(deterministic=deterministic, return_lse=asked.return_lse)
    query, key, value = given[:3]
    # From here on a number that stays what it is: gradients ask for it again, and a tensor may have changed by then.
    dropout_p, prefix, tolerance = checked_dropout(asked.dropout_p), asked.prefix, asked.tolerance
    call = call_of(query, key, value, asked._replace(dropout_p=dropout_p))
    scores, plain_scores = scores_of(call.query, asked.sinks, asked.softcap), asked.has_plain_scores()
    if tolerance is not None and not plain_scores:
        raise InvalidInput(
            "tolerance is given with sinks, softcap or return_lse, which are exact; leave one of them out"
        )
    if tolerance is not None:
        tolerance = checked_positive("tolerance", tolerance)
        close = None if torch.compiler.is_compiling() else approximated(problem_of(call, prefix, dropout_p), tolerance)
        if close is not None:
            return close.reshape(call.shape)
    unpacked = dropout_p == 0.0 and plain_scores and asked.is_unpacked()
    if unpacked and query.is_cpu and forward_ad._current_level < 0 and is_unwatched(given):
        options = (asked.is_causal, asked.scale, asked.enable_gqa, asked.deterministic, asked.window)
        way = choose(problem_of(call, None, 0.0), given, options)
        if way is not None and (answer := way(*given)) is not None:
            return answer
    arguments = Arguments(
        call.query, call.key, call.value, **call.visible.flattened(), seed=_drawn_seed(query, dropout_p),
        scale=call.scale, prefix=prefix or 0, dropout_p=dropout_p, deterministic=deterministic, **scores._asdict(),
    )  # fmt: skip
    if asked.return_lse:
        output, lse = with_lse(arguments)
        return output.reshape(call.shape), lse.reshape(call.shape[:-1])
    output = _output_of(arguments, given, known)
    return output if output.shape == call.shape else output.reshape(call.shape)


def _output_of(arguments: Arguments, given: tuple[Tensor, ...], known: Known | None) -> Tensor:
    """By the operator where something watches; otherwise past it, and what is known of the call is added to."""
    if not is_unwatched(arguments.tensors):
        return operated(*arguments)[0]
    if known is None or any(mine is not theirs for mine, theirs in zip(arguments, given, strict=False)):
        return unwatched(arguments)
    output = unwatched(arguments, known)
    known.arguments = arguments[len(given) :]
    return output


def _drawn_seed(query: Tensor, dropout_p: float) -> Tensor | None:
    """The seed of a dropout, if there is one, drawn on the CPU: a CUDA graph would drop the same scores every time."""
    if dropout_p <= 0.0:
        return None
    if query.is_cuda and not torch.compiler.is_compiling() and torch.cuda.is_current_stream_capturing():
        raise InvalidInput(
            f"dropout_p is {dropout_p} while a CUDA graph is captured, and every replay would drop the same scores;"
            " set it to 0, or call attention outside of the graph"
        )
    return torch.randint(2**62, (), dtype=torch.int64, device="cpu")
