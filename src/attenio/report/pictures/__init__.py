"""Pictures of plans as SVG, readable in light and dark, with their numbers as text for those who cannot see them."""

from attenio.report.pictures.moves import Frame, frames_of, moves_svg, small_plan
from attenio.report.pictures.roofline import roofline_svg
from attenio.report.pictures.tiles import tiles_svg
from attenio.report.pictures.words import words_svg

__all__ = ["Frame", "frames_of", "moves_svg", "roofline_svg", "small_plan", "tiles_svg", "words_svg"]
