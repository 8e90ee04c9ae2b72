"""The host tier: a submission's own process that has the GPU, and the referee's side of it."""
