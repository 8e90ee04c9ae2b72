"""The service: overhead, load and losses."""
