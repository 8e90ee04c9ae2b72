"""Stage 4, verify: trials on fresh inputs, compared with a float64 oracle."""
