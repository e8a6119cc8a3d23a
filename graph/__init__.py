"""Postgres, the record: people, memberships, scopes, items, derived data, sync state, audit."""
