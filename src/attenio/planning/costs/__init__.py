"""What any dataflow moves and holds with given tiles, and the closed forms of those that approximate."""
