"""Certificates from data: arrays of queries, keys and values, or a stream of them.

>>> draw = np.random.default_rng(0)
>>> q, k, v = (draw.uniform(-0.3, 0.3, (256, 8)).astype(np.float32) for _ in range(3))
>>> (found,) = certify(AttentionData.of(q, k, v), Terms(tolerance=1e-2, dtype=ElementType.FP32))
>>> found.certificate.degree, found.measured_error <= found.certificate.guaranteed_error
(1, True)
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from attenio.approximation.certificate import Certificate, Evidence, Scores, Terms, certificate_for
from attenio.approximation.data import AttentionData, Head
from attenio.approximation.evaluation import approximate_attention
from attenio.approximation.observation import (
    Centring,
    Observation,
    Progress,
    audit_of,
    exact_attention,
    observe,
    observe_rows,
)
from attenio.elements import ElementType
from attenio.errors import InvalidInput

Float32 = NDArray[np.float32]


@dataclass(frozen=True, kw_only=True)
class Diligence:
    """How much work a certificate may take: multiplications for each head, and whether to run it and measure."""

    centring: Centring = Centring.BEST
    rescale: bool = True
    measure: bool = True
    most_products: int = 2**36


@dataclass(frozen=True, kw_only=True, eq=False)
class HeadCertificate:
    """The certificate of one KV head of one sequence, with the error that was measured beside the one guaranteed."""

    batch: int
    kv_head: int
    certificate: Certificate
    centre: Float32  # to be subtracted from every key
    centring: Centring
    radius_without_centring: float
    measured_error: float | None  # in the units of the guaranteed one; None where nothing was run


def certify(
    data: AttentionData, terms: Terms, diligence: Diligence | None = None, progress: Progress | None = None
) -> tuple[HeadCertificate, ...]:
    """A certificate for every KV head of every sequence; the element type is that of the data."""
    chosen = diligence or Diligence()
    summation = replace(terms.summation, direct=data.causal or terms.summation.direct)
    asked = replace(terms, dtype=data.dtype, summation=summation)
    heads = list(data.heads())
    certificates = []
    for number, head in enumerate(heads):
        # a single head tells how far it is in each pass over its rows; several are counted
        certificates.append(_certify(head, asked, chosen, progress if len(heads) == 1 else None))
        if progress is not None:
            progress(number + 1, len(heads))
    return tuple(certificates)


def _certify(head: Head, terms: Terms, diligence: Diligence, progress: Progress | None) -> HeadCertificate:
    affordable = len(head.queries) * len(head.keys) * head.d <= diligence.most_products
    if affordable:
        seen = observe(head, diligence.centring, progress)
        certificate = certificate_for(seen.scores, terms, lambda p: audit_of(head, seen.centre, p, progress))
    else:
        seen = observe_rows(head, diligence.centring, rescale=diligence.rescale)
        certificate = certificate_for(seen.scores, terms)
    runs = affordable and _can_run(head, certificate, diligence)
    return HeadCertificate(
        batch=head.batch,
        kv_head=head.kv_head,
        certificate=certificate,
        centre=seen.centre,
        centring=seen.centring,
        radius_without_centring=seen.radius_without_centring,
        measured_error=measured_error(head, certificate, seen) if runs else None,
    )


def _can_run(head: Head, certificate: Certificate, diligence: Diligence) -> bool:
    if not diligence.measure or certificate.features is None:
        return False
    products = (len(head.queries) + len(head.keys)) * certificate.features * int(head.values.shape[1])
    return products <= diligence.most_products


def measured_error(head: Head, certificate: Certificate, seen: Observation) -> float:
    """The largest difference between the approximation run in single precision and exact attention in float64."""
    if certificate.polynomial is None:
        raise InvalidInput("exact attention has no approximation to measure")
    output = approximate_attention(head, certificate.polynomial, seen.centre, certificate.terms.summation)
    stored = certificate.terms.dtype.rounded(output)
    worst = 0.0
    for rows, exact in exact_attention(head):
        # np.maximum, unlike max, keeps NaN: a run that breaks must not look perfect
        worst = float(np.maximum(worst, np.abs(stored[rows] - exact).max()))
    return worst / certificate.scores.value_unit


def certify_stream(chunks: Iterable[AttentionData], terms: Terms) -> tuple[HeadCertificate, ...]:
    """Certificates from pieces of a long sequence, each seen once: from the range of every coordinate.

    Keys are centred on the middle of their box, which is known at the end; a score is then at most the sum over
    coordinates of the largest |q_t| times half the range of k_t, and at most the largest norm of a query times that of
    these halves.
    """
    boxes: dict[tuple[int, int], _Box] = {}
    dtype: ElementType | None = None
    causal = False
    for chunk in chunks:
        if dtype is not None and chunk.dtype is not dtype:
            raise InvalidInput(f"chunks hold {dtype.value} and {chunk.dtype.value}; convert them to one element type")
        dtype, causal = chunk.dtype, causal or chunk.causal
        for head in chunk.heads():
            place = (head.batch, head.kv_head)
            box = _Box.of(head)
            boxes[place] = boxes[place].joined(box) if place in boxes else box
    if dtype is None:
        raise InvalidInput("the stream of arrays is empty; give at least one chunk")
    summation = replace(terms.summation, direct=causal or terms.summation.direct)
    asked = replace(terms, dtype=dtype, summation=summation)
    return tuple(box.certificate(place, asked) for place, box in sorted(boxes.items()))


@dataclass(frozen=True, kw_only=True, eq=False)
class _Box:
    """What is kept of the rows seen so far."""

    keys: int
    scale: float
    query_sizes: NDArray[np.float64]
    query_norm: float
    key_range: NDArray[np.float64]  # (2, d): least and largest
    value_range: NDArray[np.float64]

    @classmethod
    def of(cls, head: Head) -> "_Box":
        return cls(
            keys=len(head.keys),
            scale=head.scale,
            query_sizes=np.abs(head.queries).max(axis=0).astype(np.float64),
            query_norm=float(np.linalg.norm(head.queries.astype(np.float64), axis=1).max()),
            key_range=np.stack([head.keys.min(axis=0), head.keys.max(axis=0)]).astype(np.float64),
            value_range=np.stack([head.values.min(axis=0), head.values.max(axis=0)]).astype(np.float64),
        )

    def joined(self, other: "_Box") -> "_Box":
        widths = [(len(box.query_sizes), box.value_range.shape) for box in (self, other)]
        if widths[0] != widths[1] or self.scale != other.scale:
            raise InvalidInput("chunks differ in width or scale; give pieces of one sequence")
        return _Box(
            keys=self.keys + other.keys,
            scale=self.scale,
            query_sizes=np.maximum(self.query_sizes, other.query_sizes),
            query_norm=max(self.query_norm, other.query_norm),
            key_range=_widened(self.key_range, other.key_range),
            value_range=_widened(self.value_range, other.value_range),
        )

    def reach(self, centre: NDArray[np.float64]) -> float:
        """At least every |scale * q.(k - centre)|, and every sum of sizes of its products."""
        halves = np.abs(self.key_range - centre).max(axis=0)
        by_coordinate = float(self.query_sizes @ halves)
        return min(by_coordinate, self.query_norm * float(np.linalg.norm(halves))) * abs(self.scale) * (1 + 1e-12)

    def certificate(self, place: tuple[int, int], terms: Terms) -> HeadCertificate:
        centre = self.key_range.mean(axis=0).astype(np.float32)
        scores = Scores(
            d=len(centre),
            keys=self.keys,
            radius=self.reach(centre.astype(np.float64)),
            value_bound=float(np.abs(self.value_range).max()),
            value_radius=float((self.value_range[1] - self.value_range[0]).max() / 2),
            evidence=Evidence.BOX,
        )
        return HeadCertificate(
            batch=place[0],
            kv_head=place[1],
            certificate=certificate_for(scores, terms),
            centre=centre,
            centring=Centring.MIDDLE,
            radius_without_centring=self.reach(np.zeros(len(centre))),
            measured_error=None,
        )


def _widened(one: NDArray[np.float64], other: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.stack([np.minimum(one[0], other[0]), np.maximum(one[1], other[1])])
