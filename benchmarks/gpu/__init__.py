"""Grading on a GPU."""
