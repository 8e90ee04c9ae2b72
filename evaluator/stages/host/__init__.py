"""The host tier: host code that cannot be recorded runs in a process of its own, and the referee's clock times it."""
