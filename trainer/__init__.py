"""The trainer: multi-turn reinforcement learning against the evaluator, which it reaches only over HTTP."""
