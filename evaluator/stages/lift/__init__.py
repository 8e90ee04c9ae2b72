"""Lifting: from host code that nobody trusts to the launch plan that it would carry out."""
