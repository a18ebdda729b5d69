"""Keys and values in pages: what calls hand over, what requests share and read once, and the cache."""
