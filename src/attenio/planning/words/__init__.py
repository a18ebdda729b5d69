"""The words and the room of every exact dataflow, one file each, as data that all searches read."""
