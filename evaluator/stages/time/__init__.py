"""Stage 5, time: measured launches beside a baseline, and what they say."""
