"""The database: evaluations, leases, workers and keys, on SQLite or PostgreSQL."""
