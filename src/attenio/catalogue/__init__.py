"""Named machines and models, as data with their source."""
