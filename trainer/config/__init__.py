"""The configuration of a training run: its fields, the files that are ready, and how they are read."""
