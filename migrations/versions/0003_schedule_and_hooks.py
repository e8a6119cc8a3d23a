"""Leases and jobs of the schedule, the inbox of deliveries, subscriptions, what was given up, what was erased.

Revision ID: 0003_schedule_and_hooks
Revises: 0002_checked_runs
"""

from __future__ import annotations

from alembic import op

revision = "0003_schedule_and_hooks"
down_revision = "0002_checked_runs"
branch_labels = None
depends_on = None


def _forgetting(table: str, part: str, lock: int, columns: str | None = None) -> str:
    """A trigger by which a write to the table forgets the snapshots of that part."""
    update = f"UPDATE OF {columns}" if columns else "UPDATE"
    return (
        f"CREATE TRIGGER forget_snapshots BEFORE INSERT OR DELETE OR TRUNCATE OR {update} ON {table} "
        f"FOR EACH STATEMENT EXECUTE FUNCTION forget_snapshots('{part}', '{lock}')"
    )


STATEMENTS = (
    # Who holds what for a while: a holder that dies loses it when the time is over. `token` grows with each holder.
    """
    CREATE TABLE leases (
        name text COLLATE "C" PRIMARY KEY,
        holder text NOT NULL,
        token bigint NOT NULL,
        until timestamptz NOT NULL
    )
    """,
    # One row a job of the schedule: when it may run next, and how its last runs went.
    """
    CREATE TABLE jobs (
        name text COLLATE "C" PRIMARY KEY,
        due_at timestamptz NOT NULL,
        started_at timestamptz,
        finished_at timestamptz,
        succeeded_at timestamptz,
        reason text,
        runs bigint NOT NULL DEFAULT 0,
        failures integer NOT NULL DEFAULT 0,
        skipped jsonb NOT NULL DEFAULT '{}'
    )
    """,
    # Deliveries as hints of what to read again: addresses, never texts. One row a hint; `key` tells doubles.
    """
    CREATE TABLE inbox (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        source text NOT NULL,
        key text COLLATE "C" NOT NULL,
        connector text NOT NULL,
        hint jsonb NOT NULL,
        occurred_at timestamptz,
        received_at timestamptz NOT NULL,
        state text NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'done', 'dead')),
        attempts integer NOT NULL DEFAULT 0,
        due_at timestamptz NOT NULL,
        done_at timestamptz,
        reason text,
        UNIQUE (source, key),
        -- Whoever may write here can write hints and nothing else: one that nobody can read would stop the work on all.
        CONSTRAINT inbox_hint CHECK (coalesce(
            hint - ARRAY['connector', 'kind', 'reader', 'uri', 'gone', 'version', 'place', 'note'] = '{}'
            AND hint ->> 'connector' = connector
            AND CASE hint ->> 'kind'
                WHEN 'item' THEN hint ->> 'uri' IS NOT NULL AND hint ->> 'reader' IS NOT NULL
                WHEN 'reader' THEN hint ->> 'reader' IS NOT NULL
                WHEN 'subscription' THEN hint ->> 'place' IS NOT NULL
                ELSE hint ->> 'kind' = 'access' END
            AND coalesce(jsonb_typeof(hint -> 'gone'), 'boolean') = 'boolean'
            AND coalesce(jsonb_typeof(hint -> 'reader'), 'string') = 'string'
            AND coalesce(jsonb_typeof(hint -> 'uri'), 'string') = 'string'
            AND coalesce(jsonb_typeof(hint -> 'version'), 'string') = 'string'
            AND coalesce(jsonb_typeof(hint -> 'place'), 'string') = 'string'
            AND coalesce(jsonb_typeof(hint -> 'note'), 'string') = 'string', false))
    )
    """,
    "CREATE INDEX inbox_pending ON inbox (connector, due_at, id) WHERE state = 'pending'",
    "CREATE INDEX inbox_received ON inbox (received_at)",
    # How many deliveries had which outcome: accepted, doubled, forged, stale, oversized, malformed, unknown, …
    """
    CREATE TABLE deliveries (
        source text NOT NULL,
        outcome text NOT NULL,
        n bigint NOT NULL,
        last_at timestamptz NOT NULL,
        PRIMARY KEY (source, outcome)
    )
    """,
    # `made_with` is a digest of addresses, secret and certificate: with others it has to be made anew.
    """
    CREATE TABLE subscriptions (
        connector text NOT NULL,
        resource text NOT NULL,
        id text NOT NULL,
        made_at timestamptz NOT NULL,
        renewed_at timestamptz NOT NULL,
        expires_at timestamptz NOT NULL,
        last_delivery_at timestamptz,
        made_with text NOT NULL DEFAULT '',
        reason text,
        PRIMARY KEY (connector, resource)
    )
    """,
    "CREATE INDEX subscriptions_id ON subscriptions (id)",
    """
    CREATE TABLE dead_letters (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        name text NOT NULL,
        body jsonb NOT NULL,
        reason text NOT NULL,
        attempts integer NOT NULL,
        at timestamptz NOT NULL
    )
    """,
    # Who and what must never come back. A person is kept by digest of their identity, an item by address. `names` are
    # digests of what a person is called, to find it in texts; without `finished_at` the work is not done yet.
    """
    CREATE TABLE erasures (
        subject text COLLATE "C" PRIMARY KEY,
        kind text NOT NULL CHECK (kind IN ('person', 'item')),
        names jsonb NOT NULL DEFAULT '[]',
        at timestamptz NOT NULL,
        finished_at timestamptz,
        receipt jsonb NOT NULL
    )
    """,
    # What those digests are made with: drawn once, at the first erasure of a person.
    """
    CREATE TABLE erasure_key (
        only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
        key bytea NOT NULL
    )
    """,
    # When a container last got a member that it had not: a directory that was read before may not know it.
    "ALTER TABLE containers ADD COLUMN grew_at timestamptz",
    # Snapshots of access that would change nothing, since the tables are what they say: the next one that is the same
    # need not be compared. Whatever writes to these tables, by whatever way, forgets them all.
    """
    CREATE TABLE applied_snapshots (
        id bigint GENERATED ALWAYS AS IDENTITY,
        part text NOT NULL CHECK (part IN ('directory', 'scopes')),
        source text NOT NULL,
        digest text NOT NULL,
        PRIMARY KEY (part, source, digest)
    )
    """,
    # The lock is that of whoever compares: a write that was not committed yet can't pass by unseen.
    """
    CREATE FUNCTION forget_snapshots() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        PERFORM pg_advisory_xact_lock(TG_ARGV[1]::bigint);
        DELETE FROM applied_snapshots WHERE part = TG_ARGV[0];
        RETURN NULL;
    END $$
    """,
    *(_forgetting(table, "directory", 0x6469726563746F72) for table in ("people", "containers", "memberships")),
    _forgetting(
        "scopes",
        "scopes",
        0x73636F706573,
        "id, origin, source, kind, name, label, attributes, acl, acl_digest, acl_version, allowed, denied",
    ),
)
_TABLES = (
    "applied_snapshots",
    "erasure_key",
    "erasures",
    "dead_letters",
    "subscriptions",
    "deliveries",
    "inbox",
    "jobs",
    "leases",
)


def upgrade() -> None:
    """Make the tables."""
    for statement in STATEMENTS:
        op.execute(statement)


def downgrade() -> None:
    """Drop the tables: deliveries that wait are lost, and the next poll finds what they told."""
    for table in ("people", "containers", "memberships", "scopes"):
        op.execute(f"DROP TRIGGER forget_snapshots ON {table}")
    op.execute("DROP FUNCTION forget_snapshots")
    op.execute("ALTER TABLE containers DROP COLUMN grew_at")
    for table in _TABLES:
        op.execute(f"DROP TABLE {table}")
