"""What brings the arguments of a call to a problem that kernels take: checks, what is visible, the problem itself."""
