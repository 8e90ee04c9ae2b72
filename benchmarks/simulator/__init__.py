"""The simulator: speed, coverage, counters and estimates."""
