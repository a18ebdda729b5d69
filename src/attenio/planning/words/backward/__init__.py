"""The words and the room of the dataflows of the gradient, one file each."""
