"""What both GPU backends share: arguments of kernels, results, measured tiles, counters, bytes below the L2."""
