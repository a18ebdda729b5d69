"""Controller programs, one dataflow a file."""
