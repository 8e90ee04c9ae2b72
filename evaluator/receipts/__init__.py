"""Receipts: whether a signed verdict is genuine, fits itself, and comes out the same again."""
