"""Best tiles of the gradient, one dataflow a file: the same searches, over rows, keys, rectangles and columns."""
