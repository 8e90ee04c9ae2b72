"""Stage 6, profile: counters, estimates of time, and what costs time."""
