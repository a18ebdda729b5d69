"""Keys and values in pages: tables, the problem that kernels see, what is read for whom, and the cache."""
