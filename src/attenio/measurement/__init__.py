"""Facts about runs: where and how they were made."""
