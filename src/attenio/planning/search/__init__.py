"""The search for the best tiles of one problem, in Python integers: one file for every kind of phase.

``sweeping`` has the same search for many problems at once, in arrays, in files of the same names: ``contest``,
``forms``, ``floors``, ``rectangles``, ``row_tiles``, ``products`` and ``room``. Loops that stop early and whole arrays
have little code in common; the words and rooms that both read stand once, in ``words``.
"""
