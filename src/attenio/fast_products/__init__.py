"""Products by fast algorithms on the counted memory, and what no fast algorithm can save."""
