"""Benchmarks: each is one file that measures, prints a table and saves results/NAME.json."""
