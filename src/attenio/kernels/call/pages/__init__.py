"""A call on pages: tables of them, the problem that kernels see, and what is read for whom."""
