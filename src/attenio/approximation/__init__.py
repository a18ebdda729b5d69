"""Approximate attention: a polynomial in place of the exponential, features, and certificates of the error."""

from attenio.approximation.certificate import Certificate, Evidence, Scores, Terms, Verdict, certificate_for
from attenio.approximation.entries import EntryBounds, radius_for
from attenio.approximation.features import FeatureTile, feature_count, feature_tiles, monomials, multinomial
from attenio.approximation.polynomials import Kind, Polynomial, least_degree, minimax, polynomial, taylor
from attenio.approximation.rounding import Summation

__all__ = [
    "Certificate",
    "EntryBounds",
    "Evidence",
    "FeatureTile",
    "Kind",
    "Polynomial",
    "Scores",
    "Summation",
    "Terms",
    "Verdict",
    "certificate_for",
    "feature_count",
    "feature_tiles",
    "least_degree",
    "minimax",
    "monomials",
    "multinomial",
    "polynomial",
    "radius_for",
    "taylor",
]
