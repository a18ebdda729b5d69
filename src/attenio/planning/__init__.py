"""Plans: closed-form costs of every dataflow and the search for the best tiles."""
