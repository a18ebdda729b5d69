"""What both GPU backends share: arguments of kernels, results, measured tiles, counters, features in tensor cores."""
