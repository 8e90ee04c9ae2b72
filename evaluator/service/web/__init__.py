"""The web pages, and the events that keep them up to date."""
