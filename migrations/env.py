"""Alembic's entry: runs the revisions on the connection that `graph.migrate` opened, in one transaction."""

from __future__ import annotations

from alembic import context

connection = context.config.attributes["connection"]
context.configure(connection=connection, target_metadata=None)
with context.begin_transaction():
    context.run_migrations()
