"""Attention on pages: the doors that call a backend, what is explained, and the cache that fills pages."""
