"""Approximate attention: a polynomial in place of the exponential, features, and certificates of the error."""

from attenio.approximation.certificate import Certificate, Evidence, Scores, Terms, Verdict, certificate_for
from attenio.approximation.certification import Diligence, HeadCertificate, certify, certify_stream
from attenio.approximation.data import AttentionData
from attenio.approximation.entries import EntryBounds, radius_for
from attenio.approximation.features import FeatureTile, feature_count, feature_tiles, monomials, multinomial
from attenio.approximation.observation import Centring
from attenio.approximation.polynomials import Kind, Polynomial, least_degree, minimax, polynomial, taylor
from attenio.approximation.rounding import Summation
from attenio.approximation.running import DecodeState, TiledSummation, approximate_attention, certify_tensors

__all__ = [
    "AttentionData",
    "Centring",
    "Certificate",
    "DecodeState",
    "Diligence",
    "EntryBounds",
    "Evidence",
    "FeatureTile",
    "HeadCertificate",
    "Kind",
    "Polynomial",
    "Scores",
    "Summation",
    "Terms",
    "TiledSummation",
    "Verdict",
    "approximate_attention",
    "certificate_for",
    "certify",
    "certify_stream",
    "certify_tensors",
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
