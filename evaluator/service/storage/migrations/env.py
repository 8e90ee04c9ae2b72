"""How Alembic runs here: on the connection, and inside the transaction, that `Database.upgrade` hands over."""

from alembic import context

from evaluator.service.storage.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    # SQLite can change tables within a transaction too, as long as the transaction is ours to begin.
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
