"""Closed forms of the gradient, one dataflow a file; also R touched rows, F touched keys, and m keys of a KV head."""
