"""Attention over the ranks of torch.distributed, by point-to-point messages that are all counted."""
