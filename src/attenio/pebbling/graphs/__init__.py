"""The graphs: products, attention, and the classics whose optima are known."""
