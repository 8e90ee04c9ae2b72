"""The tables' history (Alembic), inside the package so that an installed service can upgrade its database."""
