"""Two versions of one kernel, side by side."""
