"""What a command raises that was stopped."""


class Stopped(Exception):
    """Ctrl-C, where a command has something to say about what it had done by then."""
