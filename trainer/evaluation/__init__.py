"""What models are worth on tasks that they never learned from: played, measured, compared, and told."""
