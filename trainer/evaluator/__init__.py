"""The evaluator, as the trainer meets it: over HTTP."""
