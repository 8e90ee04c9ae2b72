"""Reinforcement learning with verl: `runner.run(config)` is the face, everything else here serves it."""
