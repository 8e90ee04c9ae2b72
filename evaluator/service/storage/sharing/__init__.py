"""How keys share the processors: the rules, and what the database keeps of it."""
