"""A few rows against many keys in one pass, in LLVM's language.

for each tile j of 64 keys:
    widen K_j and V_j, if their precision is reduced and they are used more than once
    S = Q K_j^T, four keys and up to four rows at a time, sums in registers; values of j are prefetched meanwhile
    P, max, sum, rescale = online softmax of scale S
    O = rescale O + P V_j, up to four rows and sixteen columns at a time, sums in registers; the next are prefetched
"""

from collections.abc import Callable

from attenio.kernels.cpu.assembly import FLOAT4, Body, splat

TILE = 64
LINE = 64
MOST_ROWS = 64
MOST_WIDTH = 576
# Vectors of scores at a time in the softmax: one exponential's chain of products is longer than what it waits for.
ABREAST = 4
# 2^f for |f| <= 1/2, relative error 3e-9: 1 + f (c1 + f (c2 + ...)), found by interpolation in 1 + f g(f).
EXP2 = (0.6931472138, 0.2402264811, 0.05550314169, 0.009618375058, 0.001340498096, 0.0001537884708)
POINTERS = ("Q", "K", "V", "O", "M", "L", "wide")
NUMBERS = ("batch", "heads", "rows", "keys", "d", "width", "kb", "kh", "kr", "vb", "vh", "vr")


def few_rows_text(kind: str, abreast: int, *, widens: bool) -> str:
    """The module, for keys and values of one kind and so many rows abreast."""
    arguments = ", ".join(
        [f"ptr %{name}" for name in POINTERS] + [f"i64 %{name}" for name in NUMBERS] + ["float %factor"]
    )
    body = _few_rows(kind, abreast, widens)
    declared = (
        f"declare {FLOAT4} @llvm.fmuladd.v4f32({FLOAT4}, {FLOAT4}, {FLOAT4})",
        f"declare {FLOAT4} @llvm.maxnum.v4f32({FLOAT4}, {FLOAT4})",
        f"declare {FLOAT4} @llvm.rint.v4f32({FLOAT4})",
        f"declare <4 x i32> @llvm.fptosi.sat.v4i32.v4f32({FLOAT4})",
        f"declare float @llvm.vector.reduce.fmax.v4f32({FLOAT4})",
        f"declare float @llvm.vector.reduce.fadd.v4f32(float, {FLOAT4})",
        "declare float @llvm.maxnum.f32(float, float)",
        "declare i64 @llvm.smin.i64(i64, i64)",
        "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)",
    )
    zeros = f"@zeros = internal constant [{MOST_WIDTH} x float] zeroinitializer, align 16"
    return "\n".join([zeros, *declared, f"define void @few_rows({arguments}) {{", str(body), "}"])


def _few_rows(kind: str, abreast: int, widens: bool) -> Body:
    body = Body()
    scores = body.slot(f"[{MOST_ROWS * TILE} x float]")
    with body.loop("%batch") as b, body.loop("%heads") as h:
        batch_head = body.let(f"add i64 {body.let(f'mul i64 {b}, %heads')}, {h}")
        first = body.let(f"mul i64 {batch_head}, %rows")
        query = body.at("%Q", body.let(f"mul i64 {first}, %d"))
        output = body.at("%O", body.let(f"mul i64 {first}, %width"))
        largest, total = body.at("%M", first), body.at("%L", first)
        key, value = (
            body.at(
                f"%{name.upper()}", body.let(f"mul i64 {b}, %{name}b"), body.let(f"mul i64 {h}, %{name}h"), kind=kind
            )
            for name in "kv"
        )
        with body.loop("%keys", TILE) as start:
            left = body.let(f"sub i64 %keys, {start}")
            here = body.call("smin.i64", "i64", left, str(TILE))
            key_rows, value_rows = (
                _TileRows(body, kind, body.at(base, body.let(f"mul i64 {start}, %{step}"), kind=kind), f"%{step}", here)
                for base, step in ((key, "kr"), (value, "vr"))
            )
            if widens:
                key_rows = key_rows.widened("%wide", "%d")
                value_rows = value_rows.widened(body.at("%wide", body.let(f"mul i64 %d, {TILE}")), "%width")
            _scores(body, (query, key_rows, value_rows), scores, here, abreast)
            _softmax(body, scores, here, (output, largest, total))
            next_keys = body.at(key, body.let(f"mul i64 {body.let(f'add i64 {start}, {TILE}')}, %kr"), kind=kind)
            _accumulate(body, (scores, value_rows, next_keys), output, here, abreast, kind)
    return body


class _TileRows:
    """Rows of a tile of keys or values; those past the last are zero."""

    def __init__(self, body: Body, kind: str, base: str, step: str, count: str) -> None:
        self._body, self.kind, self._base, self._step, self._count = body, kind, base, step, count

    def four(self, index: str) -> list[str]:
        """Pointers to four rows."""
        body, pointers = self._body, []
        for k in range(4):
            j = body.let(f"add i64 {index}, {k}")
            row = body.at(self._base, body.let(f"mul i64 {j}, {self._step}"), kind=self.kind)
            inside = body.let(f"icmp slt i64 {j}, {self._count}")
            pointers.append(body.let(f"select i1 {inside}, ptr {row}, ptr @zeros"))
        return pointers

    def read(self, row: str, column: str) -> str:
        """Four elements of a row, in single precision."""
        body, place = self._body, self._body.at(row, column, kind=self.kind)
        if self.kind == "float":
            return body.read(place)
        if self.kind == "half":
            return body.let(f"fpext <4 x half> {body.read(place, '<4 x half>', align=2)} to {FLOAT4}")
        wide = body.let(f"zext <4 x i16> {body.read(place, '<4 x i16>', align=2)} to <4 x i32>")
        return body.let(f"bitcast <4 x i32> {body.let(f'shl <4 x i32> {wide}, splat (i32 16)')} to {FLOAT4}")

    def widened(self, into: str, width: str) -> "_TileRows":
        """The same rows in single precision, one after the other."""
        body = self._body
        with body.loop(self._count) as j:
            row = body.at(self._base, body.let(f"mul i64 {j}, {self._step}"), kind=self.kind)
            wide = body.at(into, body.let(f"mul i64 {j}, {width}"))
            with body.loop(width, 4) as i:
                body.write(self.read(row, i), body.at(wide, i))
        return _TileRows(body, "float", into, width, self._count)


def _scores(body: Body, tensors: tuple[str, _TileRows, _TileRows], scores: str, count: str, abreast: int) -> None:
    """scores[row][key] = Q K^T; the values of the same keys are prefetched, line by line."""
    query, keys, values = tensors
    with body.loop(count, 4) as j:
        rows = keys.four(j)
        for row in values.four(j):
            with body.loop("%width", LINE // (4 if values.kind == "float" else 2)) as column:
                _prefetch(body, body.at(row, column, kind=values.kind))
        with body.loop("%rows", abreast) as r:
            mine = [body.at(query, body.let(f"mul i64 {body.let(f'add i64 {r}, {u}')}, %d")) for u in range(abreast)]
            sums = [[body.slot(FLOAT4, "zeroinitializer") for _ in rows] for _ in mine]
            with body.loop("%d", 4) as i:
                K = [keys.read(row, i) for row in rows]
                Q = [body.read(body.at(row, i)) for row in mine]
                for of_row, q in zip(sums, Q, strict=True):
                    for place, k in zip(of_row, K, strict=True):
                        body.write(body.muladd(q, k, body.read(place)), place)
            for u, of_row in enumerate(sums):
                place = body.at(scores, body.let(f"mul i64 {body.let(f'add i64 {r}, {u}')}, {TILE}"), j)
                body.write(_four_sums(body, [body.read(each) for each in of_row]), place)


def _four_sums(body: Body, vectors: list[str]) -> str:
    """The sums of four vectors, as one."""

    def pairs(left: str, right: str) -> str:
        even, odd = (
            body.let(f"shufflevector {FLOAT4} {left}, {FLOAT4} {right}, <4 x i32> <{places}>")
            for places in ("i32 0, i32 2, i32 4, i32 6", "i32 1, i32 3, i32 5, i32 7")
        )
        return body.let(f"fadd {FLOAT4} {even}, {odd}")

    return pairs(pairs(*vectors[:2]), pairs(*vectors[2:]))


def _softmax(body: Body, scores: str, count: str, state: tuple[str, str, str]) -> None:
    """Weights in place of scores; what was summed up is scaled down where a row's largest score grows."""
    output, largest, total = state
    with body.loop("%rows") as r:
        row, of_row, sum_of_row = (
            body.at(scores, body.let(f"mul i64 {r}, {TILE}")), body.at(largest, r), body.at(total, r)
        )  # fmt: skip
        factor, most = _spread(body, "%factor"), [body.slot(FLOAT4, splat(float("-inf"))) for _ in range(ABREAST)]
        with body.loop(count, 4 * ABREAST) as j:
            for k, part in enumerate(most):
                place, at = body.at(row, j, str(4 * k)), body.let(f"add i64 {j}, {4 * k}")
                seen = _hidden_behind(body, body.let(f"fmul {FLOAT4} {body.read(place)}, {factor}"), at, count)
                body.write(seen, place)
                body.write(body.call("maxnum.v4f32", FLOAT4, body.read(part), seen), part)
        before = body.read(of_row, "float")
        widest = _folded([body.read(part) for part in most], lambda x, y: body.call("maxnum.v4f32", FLOAT4, x, y))
        here = body.call("vector.reduce.fmax.v4f32", FLOAT4, widest, result="float")
        now = body.call("maxnum.f32", "float", before, here)
        with body.only_if(body.let(f"fcmp ogt float {now}, {before}")):
            shrink = _exp2(body, _spread(body, body.let(f"fsub float {before}, {now}")))
            one = body.let(f"extractelement {FLOAT4} {shrink}, i32 0")
            body.write(body.let(f"fmul float {body.read(sum_of_row, 'float')}, {one}"), sum_of_row, "float")
            body.write(now, of_row, "float")
            with body.loop("%width", 4) as c:
                place = body.at(output, body.let(f"mul i64 {r}, %width"), c)
                body.write(body.let(f"fmul {FLOAT4} {body.read(place)}, {shrink}"), place)
        shift, added = _spread(body, now), [body.slot(FLOAT4, "zeroinitializer") for _ in range(ABREAST)]
        with body.loop(count, 4 * ABREAST) as j:
            for k, part in enumerate(added):
                place = body.at(row, j, str(4 * k))
                weight = _exp2(body, body.let(f"fsub {FLOAT4} {body.read(place)}, {shift}"))
                body.write(weight, place)
                body.write(body.let(f"fadd {FLOAT4} {body.read(part)}, {weight}"), part)
        whole = _folded([body.read(part) for part in added], lambda x, y: body.let(f"fadd {FLOAT4} {x}, {y}"))
        tile = body.let(f"call reassoc float @llvm.vector.reduce.fadd.v4f32(float -0.0, {FLOAT4} {whole})")
        body.write(body.let(f"fadd float {body.read(sum_of_row, 'float')}, {tile}"), sum_of_row, "float")


def _folded(values: list[str], join: Callable[[str, str], str]) -> str:
    """Several vectors reduced to one, in pairs."""
    while len(values) > 1:
        values = [join(*values[k : k + 2]) for k in range(0, len(values), 2)]
    return values[0]


def _hidden_behind(body: Body, vector: str, index: str, count: str) -> str:
    """-inf in place of the scores of keys past the last."""
    last, limit = body.let(f"trunc i64 {index} to i32"), body.let(f"trunc i64 {count} to i32")
    places = body.let(f"add <4 x i32> {_spread(body, last, 'i32')}, <i32 0, i32 1, i32 2, i32 3>")
    inside = body.let(f"icmp slt <4 x i32> {places}, {_spread(body, limit, 'i32')}")
    return body.let(f"select <4 x i1> {inside}, {FLOAT4} {vector}, {FLOAT4} {splat(float('-inf'))}")


def _exp2(body: Body, x: str) -> str:
    """2^x for x <= 0, and 0 below 2^-126."""
    low = body.let(f"fcmp olt {FLOAT4} {x}, {splat(-126.0)}")
    x_or_least = body.let(f"select <4 x i1> {low}, {FLOAT4} {splat(-126.0)}, {FLOAT4} {x}")
    whole = body.call("rint.v4f32", FLOAT4, x_or_least)
    fraction = body.let(f"fsub {FLOAT4} {x_or_least}, {whole}")
    power = splat(EXP2[-1])
    for coefficient in (*EXP2[-2::-1], 1.0):
        power = body.muladd(power, fraction, splat(coefficient))
    exponent = body.call("fptosi.sat.v4i32.v4f32", FLOAT4, whole, result="<4 x i32>")
    moved = body.let(f"shl <4 x i32> {exponent}, splat (i32 23)")
    bits = body.let(f"add <4 x i32> {body.let(f'bitcast {FLOAT4} {power} to <4 x i32>')}, {moved}")
    scaled = body.let(f"bitcast <4 x i32> {bits} to {FLOAT4}")
    return body.let(f"select <4 x i1> {low}, {FLOAT4} zeroinitializer, {FLOAT4} {scaled}")


def _accumulate(
    body: Body, tensors: tuple[str, "_TileRows", str], output: str, count: str, abreast: int, kind: str
) -> None:
    """O += P V, sixteen columns at a time and then what remains in fours; a tile's sum is made by itself.

    Meanwhile the same columns of the next keys are prefetched, and the next ones of these values.
    """
    weights, values, next_keys = tensors
    sixteens = body.let(f"and i64 %width, {-16}")
    rest = body.let(f"sub i64 %width, {sixteens}")
    for stop, first, vectors in ((sixteens, "0", 4), (rest, sixteens, 1)):
        with body.loop(stop, 4 * vectors) as beyond, body.loop("%rows", abreast) as r:
            column = body.let(f"add i64 {beyond}, {first}")
            indices = [body.let(f"add i64 {r}, {u}") for u in range(abreast)]
            sums = [[body.slot(FLOAT4, "zeroinitializer") for _ in range(vectors)] for _ in indices]
            with body.loop(count, 4) as j:
                P = [body.read(body.at(weights, body.let(f"mul i64 {index}, {TILE}"), j)) for index in indices]
                for k, row in enumerate(values.four(j)):
                    spread = [_lane(body, p, k) for p in P]
                    _prefetch(body, body.at(row, body.let(f"add i64 {column}, {4 * vectors}"), kind=values.kind))
                    next_row = body.let(f"mul i64 {body.let(f'add i64 {j}, {k}')}, %kr")
                    _prefetch(body, body.at(next_keys, next_row, column, kind=kind))
                    for x in range(vectors):
                        v = values.read(row, body.let(f"add i64 {column}, {4 * x}"))
                        for of_row, p in zip(sums, spread, strict=True):
                            body.write(body.muladd(v, p, body.read(of_row[x])), of_row[x])
            for index, of_row in zip(indices, sums, strict=True):
                start = body.at(output, body.let(f"mul i64 {index}, %width"), column)
                for x, each in enumerate(of_row):
                    place = body.at(start, str(4 * x))
                    body.write(body.let(f"fadd {FLOAT4} {body.read(place)}, {body.read(each)}"), place)


def _prefetch(body: Body, place: str) -> None:
    """Prefetch the cache line of a place."""
    body.do(f"call void @llvm.prefetch.p0(ptr {place}, i32 0, i32 3, i32 1)")


def _lane(body: Body, vector: str, lane: int) -> str:
    """One element of a vector, four times."""
    return body.let(f"shufflevector {FLOAT4} {vector}, {FLOAT4} poison, <4 x i32> splat (i32 {lane})")


def _spread(body: Body, scalar: str, kind: str = "float") -> str:
    """A scalar, four times."""
    one = body.let(f"insertelement <4 x {kind}> poison, {kind} {scalar}, i32 0")
    return body.let(f"shufflevector <4 x {kind}> {one}, <4 x {kind}> poison, <4 x i32> zeroinitializer")
