"""What the evaluator and the trainer share: the wire contract, launch plans, rewards."""
