"""Programs that maintain files of this repository."""
