"""Alembic: the schema's history. Run by `graph.migrate`, which hands over an open connection."""
