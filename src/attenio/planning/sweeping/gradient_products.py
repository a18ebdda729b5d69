"""Backward plans for small fast memories in many cases: scores or their gradients travel, and products follow."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attenio.planning.plan import Dataflow
from attenio.planning.sweeping.cases import NOTHING, Cases, Ints
from attenio.planning.sweeping.choices import best_output_tiles
from attenio.planning.sweeping.gradient_rows import all_gradients, resident_key_words, visit_words, visiting_words
from attenio.planning.sweeping.operators import Floats, ScoreTiles, output_fits, output_floor, score_floor, score_tiles
from attenio.planning.sweeping.rooms import Rooms, key_room, row_room
from attenio.planning.sweeping.row_tiles import RowForms, best_row_tiles
from attenio.planning.sweeping.solution import Solution

__all__ = ["reading_floor", "reading_plans", "solve_products"]

_ROUNDING = 1 - 1e-12


def solve_products(cases: Cases, best: Solution) -> None:
    """Offer spilled gradients, tiled products and fused values, where floors leave them a chance."""
    tiled, fused = _tiled(cases, reading=False), _fused(cases)
    least = np.minimum(np.minimum(tiled.floor(cases), fused.floor(cases)), _spilled_floor(cases))
    index = np.flatnonzero(least * _ROUNDING < best.words)
    if not index.size:
        return
    few, part = cases.take(index), best.take(index)
    products = _Products.of(few)
    _spilled_gradients(few, products, part)
    _offer(few, Dataflow.TILED_PRODUCTS, tiled.take(index), products, part)
    _offer(few, Dataflow.FUSED_VALUES, fused.take(index), products, part)
    best.put(index, part)


@dataclass(frozen=True, kw_only=True)
class _Product:
    """Words of one head and tiles of one gradient made from stored scores."""

    words: Ints
    rows: Ints
    columns: Ints

    def take(self, index: Ints) -> "_Product":
        return _Product(words=self.words[index], rows=self.rows[index], columns=self.columns[index])

    def peak(self, cases: Cases) -> Ints:
        return np.asarray(self.rows * (self.columns + 1) * cases.intermediate_words + 1)


@dataclass(frozen=True, kw_only=True)
class _Products:
    """The products of all three gradients, with the fewest words of each."""

    value: _Product
    key: _Product
    query: _Product

    @classmethod
    def of(cls, cases: Cases) -> "_Products":
        across = cases.transposed
        key = _product(across.with_values(cases.d))
        query = _product(cases.with_values(cases.d))
        value = _Product(words=key.words.copy(), rows=key.rows.copy(), columns=key.columns.copy())
        other = np.flatnonzero(cases.value_dim != cases.d)
        if other.size:
            own = _product(across.take(other))
            value.words[other], value.rows[other], value.columns[other] = own.words, own.rows, own.columns
        return cls(value=value, key=key, query=query)

    def take(self, index: Ints) -> "_Products":
        return _Products(value=self.value.take(index), key=self.key.take(index), query=self.query.take(index))


def _product(cases: Cases) -> _Product:
    words, rows, columns = best_output_tiles(cases, 1)
    return _Product(words=words, rows=rows, columns=columns)


def _products_fit(cases: Cases) -> NDArray[np.bool_]:
    """Where all three products fit: tiles of queries and of keys, one column wide."""
    return np.asarray(output_fits(cases, 1) & output_fits(cases.transposed, 1))


@dataclass(frozen=True, kw_only=True)
class _Scored:
    """A dataflow with one tile of scores: what the tile decides, the rest of a group, and whether dV is a product."""

    tiles: ScoreTiles
    fixed: Ints
    value_product: bool
    names: tuple[str, str] = ("score_rows", "score_keys")

    def take(self, index: Ints) -> "_Scored":
        tiles, fixed = self.tiles.take(index), self.fixed[index]
        return _Scored(tiles=tiles, fixed=fixed, value_product=self.value_product, names=self.names)

    def floor(self, cases: Cases) -> Floats:
        """Words that no tiles go below; infinite where none fit."""
        across = cases.transposed
        words = score_floor(cases, self.tiles) + output_floor(cases.with_values(cases.d), 1)
        words = words + output_floor(across.with_values(cases.d), 1)
        if self.value_product:
            words = words + output_floor(across, 1)
        fits = self.tiles.fits(cases) & _products_fit(cases)
        return np.where(fits, self.fixed + cases.group * words, np.inf)

    def after(self, products: _Products) -> Ints:
        """Words of one head for the products."""
        words = products.key.words + products.query.words
        return np.asarray(words + products.value.words if self.value_product else words)


def _tiled(cases: Cases, *, reading: bool) -> _Scored:
    """Tiled products; ``reading`` those that read saved probabilities."""
    d, dv, w, band = cases.d, cases.value_dim, cases.intermediate_words, cases.band
    width, statistics, travels = (dv, w, 2) if reading else (d + dv, 2 * w, 3)
    room = cases.fast_words - 1 - w
    tiles = ScoreTiles(met=width, loads=width, kept=-statistics, words=room, per_score=w, per_row=1 + w)
    own = band.touched_rows * (2 * dv + w) + travels * band.scores * w + cases.rows * d
    fixed = cases.group * own + cases.keys * (d + dv)
    if reading:
        return _Scored(tiles=tiles, fixed=fixed, value_product=True, names=("gradient_rows", "gradient_keys"))
    return _Scored(tiles=tiles, fixed=fixed, value_product=True)


def _fused(cases: Cases) -> _Scored:
    d, dv, w, band = cases.d, cases.value_dim, cases.intermediate_words, cases.band
    tiles = ScoreTiles(
        met=d + dv,
        loads=d + dv + 2 * w * dv,
        kept=-2 * w,
        words=cases.fast_words - 1 - w,
        per_score=2 * w,
        per_row=1 + 2 * w,
    )
    own = band.touched_rows * (2 * dv + w) + band.scores * w + cases.rows * d
    # a key's first visit loads and its last stores no partial gradient
    fixed = cases.group * own + cases.keys * (d + dv) - 2 * w * dv * band.touched_keys
    return _Scored(tiles=tiles, fixed=fixed, value_product=False)


def _offer(cases: Cases, dataflow: Dataflow, scored: _Scored, products: _Products, best: Solution) -> None:
    known = np.where(_products_fit(cases), scored.after(products), 0)
    floor = scored.fixed + cases.group * (known + score_floor(cases, scored.tiles))
    fits = scored.tiles.fits(cases) & _products_fit(cases)
    index = np.flatnonzero(fits & (floor * _ROUNDING < best.words))
    limit = best.words[index] - 1
    words, peak, sizes = _plans(cases.take(index), scored.take(index), products.take(index), limit)
    best.offer(index, dataflow, words, peak, **sizes)


def _plans(cases: Cases, scored: _Scored, products: _Products, limit: Ints) -> tuple[Ints, Ints, dict[str, Ints]]:
    """Words, peak and tiles within the limit, in cases in which they fit; no words where there are none."""
    w, after = cases.intermediate_words, scored.after(products)
    spare = (limit - scored.fixed) // cases.group - after
    scores, rows, keys = score_tiles(cases, scored.tiles, spare)
    found = scores < NOTHING
    words = np.where(found, scored.fixed + cases.group * (np.where(found, scores, 0) + after), NOTHING)
    peak = rows * (keys * scored.tiles.per_score + scored.tiles.per_row) + 1 + w
    made = {"key": products.key, "query": products.query}
    sizes = {scored.names[0]: rows, scored.names[1]: keys}
    if scored.value_product:
        made = {"value": products.value, **made}
    for name, product in made.items():
        peak = np.maximum(peak, product.peak(cases))
        sizes[f"{name}_rows" if name == "query" else f"{name}_keys"] = product.rows
        sizes[f"{name}_columns"] = product.columns
    return words, np.maximum(peak, w + 2), sizes


def reading_floor(cases: Cases) -> Floats:
    """Words that no tiled products which read saved probabilities go below; infinite where none fit."""
    return _tiled(cases, reading=True).floor(cases)


def reading_plans(cases: Cases) -> tuple[Ints, Ints, dict[str, Ints]]:
    """Words, peak and tiles of tiled products that read saved probabilities, in cases in which they fit."""
    scored, products = _tiled(cases, reading=True), _Products.of(cases)
    return _plans(cases, scored, products, np.full(len(cases), NOTHING - 1))


def _spilled_room(cases: Cases, *, lean: bool) -> Rooms:
    stays, passes = resident_key_words(cases, lean=lean), visiting_words(cases)
    return Rooms(words=cases.fast_words - 1, per_score=cases.intermediate_words, per_row=stays, per_key=passes)


def _spilled_fixed(cases: Cases) -> Ints:
    band = cases.band
    own = band.touched_rows * cases.value_dim + band.scores * cases.intermediate_words
    return np.asarray(all_gradients(cases) + cases.group * own)


def _spilled_visits(cases: Cases) -> RowForms:
    loads = cases.group * visit_words(cases)
    return RowForms(band=cases.band.transposed, live=0 * cases.rows, loads=loads, unit=cases.key_unit)


def _spilled_floor(cases: Cases) -> Floats:
    visits, queries = _spilled_visits(cases), output_floor(cases.with_values(cases.d), 1)
    keys, least = output_floor(cases.transposed.with_values(cases.d), 1), np.full(len(cases), np.inf)
    for lean in (False, True):
        most = row_room(cases.transposed, _spilled_room(cases, lean=lean))
        products = queries + keys if lean else queries
        words = visits.floor(np.maximum(most, 1)) + cases.group * products
        least = np.minimum(least, np.where((most >= 1) & _products_fit(cases), words, np.inf))
    return np.asarray(_spilled_fixed(cases) + least)


def _spilled_gradients(cases: Cases, products: _Products, best: Solution) -> None:
    fixed, visits = _spilled_fixed(cases), _spilled_visits(cases)
    for lean in (False, True):
        room = _spilled_room(cases, lean=lean)
        most = row_room(cases.transposed, room)
        after = products.query.words + products.key.words if lean else products.query.words
        own = fixed + cases.group * np.where(_products_fit(cases), after, 0)
        floor = own + visits.floor(np.maximum(most, 1))
        index = np.flatnonzero((most >= 1) & _products_fit(cases) & (floor < best.words))
        few, made = cases.take(index), products.take(index)
        words, keys = best_row_tiles(visits.take(index), most[index])
        rows = key_room(few.transposed, room.take(index), keys)
        peak = np.maximum(room.take(index).taken(keys, rows) + 1, made.query.peak(few))
        sizes = {"query_tile": rows, "key_tile": keys, "query_rows": made.query.rows}
        sizes["query_columns"] = made.query.columns
        if lean:
            peak = np.maximum(peak, made.key.peak(few))
            sizes |= {"key_keys": made.key.rows, "key_columns": made.key.columns}
        best.offer(index, Dataflow.SPILLED_GRADIENTS, own[index] + words, peak, **sizes)
