"""The HTTP API: routes, what they take and give, and what they refuse."""
