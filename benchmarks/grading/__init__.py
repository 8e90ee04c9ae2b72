"""How long one grading takes."""
