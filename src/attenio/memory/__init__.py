"""The counted memory and its trace."""
