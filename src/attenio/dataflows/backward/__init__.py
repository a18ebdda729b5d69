"""The gradient of attention on the counted memory, one loop nest a file."""
