"""Training against the evaluator."""
