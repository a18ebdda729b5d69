"""Every character of UTF-8, by its category: given the codec, Hypothesis would encode each of them first."""

from hypothesis import strategies as st

CHARACTERS = st.characters(exclude_categories=["Cs"])
