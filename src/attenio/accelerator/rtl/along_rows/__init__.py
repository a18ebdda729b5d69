"""The machine of dataflows that take softmax along rows: standard attention, FLAT and FlashAttention-2."""
