"""Runs that are checked, items that are missed before they are gone, failures that wait for their next try.

Revision ID: 0002_checked_runs
Revises: 0001_first_house
"""

from __future__ import annotations

from alembic import op

revision = "0002_checked_runs"
down_revision = "0001_first_house"
branch_labels = None
depends_on = None

STATEMENTS = (
    "ALTER TABLE runs DROP CONSTRAINT runs_state_check",
    """
    ALTER TABLE runs ADD CONSTRAINT runs_state_check
        CHECK (state IN ('running', 'complete', 'partial', 'failed', 'blocked'))
    """,
    "ALTER TABLE runs ADD COLUMN checks jsonb NOT NULL DEFAULT '{}'",
    # When a failed item is to be tried again; null: by the next run.
    "ALTER TABLE failures ADD COLUMN due_at timestamptz",
    # In how many runs in a row the source's own list lacked the item, and in which it was last missed.
    "ALTER TABLE items ADD COLUMN misses integer NOT NULL DEFAULT 0",
    "ALTER TABLE items ADD COLUMN missed_at timestamptz",
    "CREATE INDEX items_missed ON items (source) WHERE misses > 0 AND lifecycle <> 'deleted'",
    "DROP INDEX items_behind",
    """
    CREATE INDEX items_behind ON items (uri) WHERE lifecycle = 'live' AND
        (indexed_digest IS DISTINCT FROM digest OR indexed_scope IS DISTINCT FROM scope)
    """,
    """
    CREATE INDEX items_not_withheld ON items (uri)
        WHERE lifecycle = 'hidden' AND indexed_scope IS DISTINCT FROM 'withheld'
    """,
)


def upgrade() -> None:
    """Add columns, and look for hidden items in an index of their own."""
    for statement in STATEMENTS:
        op.execute(statement)


def downgrade() -> None:
    """Back to runs without checks; a blocked run counts as failed."""
    for statement in (
        "DROP INDEX items_not_withheld",
        "DROP INDEX items_behind",
        """
        CREATE INDEX items_behind ON items (uri) WHERE lifecycle <> 'deleted' AND
            (indexed_digest IS DISTINCT FROM digest OR indexed_scope IS DISTINCT FROM scope)
        """,
        "DROP INDEX items_missed",
        "ALTER TABLE items DROP COLUMN missed_at, DROP COLUMN misses",
        "ALTER TABLE failures DROP COLUMN due_at",
        "UPDATE runs SET state = 'failed' WHERE state = 'blocked'",
        "ALTER TABLE runs DROP COLUMN checks",
        "ALTER TABLE runs DROP CONSTRAINT runs_state_check",
        """
        ALTER TABLE runs ADD CONSTRAINT runs_state_check
            CHECK (state IN ('running', 'complete', 'partial', 'failed'))
        """,
    ):
        op.execute(statement)
