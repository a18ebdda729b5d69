"""Decoding token by token: the keys and values so far are a state of constant size, r (value_dim + 1) words a KV head.

append:  Z += phi(K)^T [1, V]
attend:  Y = phi(Q) (w Z);  O = Y_V / Y_1
"""

from dataclasses import replace

from attenio.approximation.certificate import Certificate, Evidence
from attenio.approximation.running.attention import checked_scale, computed_in, share_heads, stacked
from attenio.approximation.running.formula import Formula
from attenio.approximation.running.forward import key_state
from attenio.approximation.running.loading import Tensor, loaded_torch
from attenio.approximation.running.sweeps import Heads, Sweep
from attenio.approximation.running.tensors import ValueRange, certified, sum_length
from attenio.approximation.running.verification import check_sizes, check_type, check_values, covers, refusal_of_scores
from attenio.errors import InvalidInput
from attenio.quantities import show_shape


class DecodeState:
    """What attention has to remember of all keys and values so far, whose size does not grow with their number.

    The certificate is made beforehand, from bounds that all tokens to come will keep to. Keys are shifted by
    ``centre``, which has to be known from the start as well. The largest norm of a key is kept, and a query whose
    scores could leave the certificate's interval is refused; so are values beyond its bounds, tokens beyond its
    number of keys, and types that round further.
    """

    def __init__(self, certificate: Certificate, *, scale: float | None = None, centre: Tensor | None = None) -> None:
        loaded_torch()
        checked = certified(certificate)
        if checked.scores.evidence is Evidence.EVERY_SCORE:
            raise InvalidInput(
                "a certificate from every score is for the data it was made from, and tokens to come are others;"
                " use one from entry bounds, Scores.from_entries"
            )
        assert checked.polynomial is not None
        self.certificate, self.length = certificate, 0
        self._scale, self._centre = scale, centre
        self._coefficients = checked.polynomial.coefficients
        self._shape: tuple[int, ...] = ()
        self._norm = 0.0
        self._values: ValueRange | None = None
        self._state: Tensor | None = None
        self._weighted: Tensor | None = None

    @property
    def state_words(self) -> int:
        """Words that are remembered."""
        return 0 if self._state is None else int(self._state.numel())

    def append(self, key: Tensor, value: Tensor) -> None:
        """Remember more tokens: (..., kv_heads, tokens, d) and (..., kv_heads, tokens, value_dim)."""
        shape = (*key.shape[:-2], key.shape[-1], value.shape[-1])
        if key.shape[:-1] != value.shape[:-1] or 0 in key.shape:
            raise InvalidInput(
                f"keys {show_shape(key.shape)} and values {show_shape(value.shape)} are not those of the same tokens"
            )
        if self._shape and shape != self._shape:
            raise InvalidInput(f"tokens of shape {shape} after tokens of shape {self._shape}; start a new state")
        sweep = self._sweep(key, key, value)
        check_sizes(self.certificate, d=key.shape[-1], keys=self.length + key.shape[-2])
        norm = max(self._norm, _largest_norm(sweep.heads.key, sweep.heads.centre))
        if not norm < float("inf"):
            raise InvalidInput("keys are not finite; clean them first")
        values = ValueRange.of(sweep.heads.value)
        values = values if self._values is None else values.joined(self._values)
        check_values(self.certificate, values, value.dtype)
        more = key_state(sweep, (0, value.shape[-1] + 1))
        self._state = more if self._state is None else self._state + more
        self._shape, self._weighted, self._norm, self._values = shape, None, norm, values
        self.length += key.shape[-2]

    def attend(self, query: Tensor) -> Tensor:
        """Attention of these queries (..., heads, queries, d) to every token appended so far."""
        if self._state is None:
            raise InvalidInput("no token was appended yet; attention to nothing is not defined")
        *heads, d, value_dim = self._shape
        if query.dim() < 2 or query.shape[-1] != d or not share_heads(tuple(query.shape[:-2]), tuple(heads)):
            raise InvalidInput(
                f"queries {show_shape(query.shape)} do not belong to KV heads {tuple(heads)} with d = {d}"
            )
        keyless = query.new_empty(*heads, 1, d)
        sweep = self._sweep(query, keyless, query.new_empty(*heads, 1, value_dim))
        # both norms are found in float64: d sums of squares, a square root, and a product
        slack = 1 + (d + 16) * 2.0**-52
        reach = _largest_norm(sweep.heads.query, None) * self._norm * abs(sweep.formula.scale) * slack
        if not covers(self.certificate, reach):
            raise refusal_of_scores(self.certificate, reach)
        if self._weighted is None:
            self._weighted = sweep.weighted(self._state)
        output = query.new_empty(*sweep.heads.query.shape[:-1], value_dim)
        for low, high in sweep.tiles(sweep.queries):
            products = sweep.times(sweep.query_rows(low, high), self._weighted)
            products = products.unflatten(1, (sweep.group, high - low))
            output[:, :, low:high] = products[..., 1:] / products[..., :1]
        return output.reshape(*query.shape[:-1], value_dim)

    def _sweep(self, query: Tensor, key: Tensor, value: Tensor) -> Sweep:
        torch = loaded_torch()
        queries, keys, values = stacked(query, key, value)
        dtype, d = computed_in(query.dtype), query.shape[-1]
        check_sizes(self.certificate, d=d, keys=self.length)
        for given in (query.dtype, value.dtype):
            check_type(self.certificate, given)
        centre = None
        if self._centre is not None:
            centre = self._centre.to(dtype).expand(*key.shape[:-2], 1, d).reshape(-1, 1, d)
        balance = torch.ones(keys.shape[0], 1, 1, dtype=dtype)
        heads = Heads(query=queries, key=keys, value=values, centre=centre, balance=balance)
        length = sum_length(self.certificate)
        formula = Formula(
            coefficients=self._coefficients, d=d, scale=checked_scale(self._scale, query), sum_length=length
        )
        # one batch of all heads: rows are few here, and the state is whole
        rows, together = formula.tiles(queries.shape[1])
        fewer = max(1, rows * together // max(keys.shape[0], 1))
        return Sweep(heads, replace(formula, rows=min(rows, max(fewer, 64))))


def _largest_norm(rows: Tensor, centre: Tensor | None) -> float:
    wide = rows.double() if centre is None else rows.double() - centre.double()
    return float(wide.norm(dim=-1).max())
