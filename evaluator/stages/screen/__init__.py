"""Stage 1, screen: from what was sent to source text, and what it must not contain."""
