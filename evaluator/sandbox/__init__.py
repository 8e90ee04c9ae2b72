"""Where untrusted work runs: one small interface, several strengths of isolation."""
