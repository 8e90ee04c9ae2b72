"""The GPU backend: real launches, in a process apart from the one that judges."""
