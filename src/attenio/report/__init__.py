"""Tables, figures and files that people read."""
