"""Who may read what, items and what is derived from them, sync state, audit.

Revision ID: 0001_first_house
Revises:
"""

from __future__ import annotations

from alembic import op

revision = "0001_first_house"
down_revision = None
branch_labels = None
depends_on = None

# Text is compared byte by byte wherever an order is shown: the same on every server.
STATEMENTS = (
    # --- access ---
    """
    CREATE TABLE access_epoch (
        only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
        epoch bigint NOT NULL
    )
    """,
    "INSERT INTO access_epoch (epoch) VALUES (1)",
    """
    CREATE TABLE directory_syncs (
        source text PRIMARY KEY,
        seen_at timestamptz NOT NULL,
        completed_at timestamptz
    )
    """,
    """
    CREATE TABLE people (
        source text NOT NULL,
        principal text COLLATE "C" NOT NULL,
        name text NOT NULL,
        kind text NOT NULL CHECK (kind IN ('member', 'guest', 'service')),
        enabled boolean NOT NULL,
        upn text,
        title text,
        department text,
        manager text,
        PRIMARY KEY (source, principal)
    )
    """,
    "CREATE INDEX people_principal ON people (principal)",
    """
    CREATE TABLE containers (
        source text NOT NULL,
        principal text COLLATE "C" NOT NULL,
        name text NOT NULL,
        kind text NOT NULL,
        unresolved_since timestamptz,
        PRIMARY KEY (source, principal)
    )
    """,
    "CREATE INDEX containers_principal ON containers (principal)",
    """
    CREATE TABLE memberships (
        source text NOT NULL,
        container text COLLATE "C" NOT NULL,
        member text COLLATE "C" NOT NULL,
        PRIMARY KEY (source, container, member)
    )
    """,
    "CREATE INDEX memberships_member ON memberships (member, container)",
    "CREATE INDEX memberships_container ON memberships (container)",
    """
    CREATE TABLE permission_syncs (
        source text PRIMARY KEY,
        at timestamptz NOT NULL
    )
    """,
    """
    CREATE TABLE scopes (
        id text COLLATE "C" PRIMARY KEY,
        origin text NOT NULL,
        source text NOT NULL,
        kind text NOT NULL,
        name text NOT NULL,
        label text,
        attributes jsonb NOT NULL DEFAULT '{}',
        acl jsonb NOT NULL,
        acl_digest text NOT NULL,
        acl_version bigint NOT NULL,
        allowed text[] NOT NULL,
        denied text[] NOT NULL,
        indexed_version bigint NOT NULL DEFAULT 0,
        indexed_allowed text[] NOT NULL DEFAULT '{}',
        changed_at timestamptz NOT NULL
    )
    """,
    "CREATE INDEX scopes_allowed ON scopes USING gin (allowed)",
    "CREATE INDEX scopes_indexed_allowed ON scopes USING gin (indexed_allowed)",
    "CREATE INDEX scopes_origin ON scopes (origin)",
    # --- items ---
    """
    CREATE TABLE items (
        uri text COLLATE "C" PRIMARY KEY,
        lifecycle text NOT NULL CHECK (lifecycle IN ('live', 'hidden', 'deleted')),
        reason text,
        source text NOT NULL,
        kind text NOT NULL,
        scope text NOT NULL,
        version text NOT NULL,
        modified_at timestamptz,
        digest text,
        stored_digest text,
        indexed_digest text,
        indexed_scope text,
        shown boolean NOT NULL GENERATED ALWAYS AS
            (lifecycle = 'live' AND coalesce(indexed_digest = digest, false)) STORED,
        ingested_at timestamptz NOT NULL,
        deleted_at timestamptz,
        noticed_at timestamptz,
        deletion_stated boolean NOT NULL DEFAULT false,
        deletion_version text,
        index_cleared boolean NOT NULL DEFAULT true,
        title text NOT NULL DEFAULT '',
        title_folded text NOT NULL DEFAULT '',
        url text NOT NULL DEFAULT '',
        url_key text NOT NULL DEFAULT '',
        created_at timestamptz,
        validated_at timestamptz,
        author_name text,
        author text,
        owner_name text,
        owner text,
        authority text NOT NULL DEFAULT 'observed',
        state text,
        container text NOT NULL DEFAULT '',
        container_folded text NOT NULL DEFAULT '',
        number text,
        label text,
        deprecated boolean NOT NULL DEFAULT false,
        replaced_by text[] NOT NULL DEFAULT '{}',
        replaced_by_keys text[] NOT NULL DEFAULT '{}',
        attributes jsonb NOT NULL DEFAULT '{}',
        body jsonb,
        chunk_digests text[] NOT NULL DEFAULT '{}'
    )
    """,
    "CREATE INDEX items_scope ON items (scope)",
    "CREATE INDEX items_source ON items (source)",
    "CREATE INDEX items_number ON items (lower(number)) WHERE number IS NOT NULL",
    # Hashes, since titles and URLs may be longer than a B-tree entry.
    "CREATE INDEX items_title ON items USING hash (title_folded)",
    "CREATE INDEX items_container ON items USING hash (container_folded)",
    "CREATE INDEX items_url ON items USING hash (url_key)",
    "CREATE INDEX items_replaced_by ON items USING gin (replaced_by_keys)",
    """
    CREATE INDEX items_behind ON items (uri) WHERE lifecycle <> 'deleted' AND
        (indexed_digest IS DISTINCT FROM digest OR indexed_scope IS DISTINCT FROM scope)
    """,
    "CREATE INDEX items_not_cleared ON items (uri) WHERE NOT index_cleared",
    """
    CREATE TABLE chunks (
        uri text COLLATE "C" NOT NULL REFERENCES items ON DELETE CASCADE,
        ordinal integer NOT NULL,
        digest text NOT NULL,
        heading text[] NOT NULL,
        text text NOT NULL,
        embedded_text text NOT NULL,
        part_uris text[] NOT NULL,
        PRIMARY KEY (uri, ordinal)
    )
    """,
    """
    CREATE TABLE item_aliases (
        uri text COLLATE "C" NOT NULL REFERENCES items ON DELETE CASCADE,
        ordinal integer NOT NULL,
        alias_folded text NOT NULL,
        PRIMARY KEY (uri, ordinal)
    )
    """,
    "CREATE INDEX item_aliases_alias ON item_aliases USING hash (alias_folded)",
    """
    CREATE TABLE links (
        uri text COLLATE "C" NOT NULL REFERENCES items ON DELETE CASCADE,
        ordinal integer NOT NULL,
        to_uri text NOT NULL,
        to_item text NOT NULL,
        outside boolean NOT NULL,
        rel text NOT NULL,
        PRIMARY KEY (uri, ordinal)
    )
    """,
    "CREATE INDEX links_to ON links USING hash (to_item)",
    # --- derived: each row hangs on the item that is its evidence ---
    """
    CREATE TABLE edges (
        uri text COLLATE "C" NOT NULL REFERENCES items ON DELETE CASCADE,
        ordinal integer NOT NULL,
        person text,
        name text NOT NULL,
        role text NOT NULL,
        at timestamptz,
        note text NOT NULL,
        PRIMARY KEY (uri, ordinal)
    )
    """,
    "CREATE INDEX edges_person ON edges (person, at DESC NULLS LAST) WHERE person IS NOT NULL",
    """
    CREATE TABLE glossary (
        uri text COLLATE "C" NOT NULL REFERENCES items ON DELETE CASCADE,
        ordinal integer NOT NULL,
        term text NOT NULL,
        key text NOT NULL,
        meaning text NOT NULL,
        meaning_key text NOT NULL,
        quote text NOT NULL,
        at timestamptz,
        method text NOT NULL,
        PRIMARY KEY (uri, ordinal)
    )
    """,
    "CREATE INDEX glossary_key ON glossary USING hash (key)",
    "CREATE INDEX glossary_meaning ON glossary USING hash (meaning_key)",
    """
    CREATE TABLE supersessions (
        uri text COLLATE "C" NOT NULL REFERENCES items ON DELETE CASCADE,
        ordinal integer NOT NULL,
        old_uri text COLLATE "C" NOT NULL,
        new_uri text COLLATE "C" NOT NULL,
        kind text NOT NULL CHECK (kind IN ('declared', 'mined')),
        confidence double precision NOT NULL CHECK (confidence BETWEEN 0 AND 1),
        quote text NOT NULL,
        PRIMARY KEY (uri, ordinal)
    )
    """,
    "CREATE INDEX supersessions_old ON supersessions USING hash (old_uri)",
    "CREATE INDEX supersessions_new ON supersessions USING hash (new_uri)",
    # --- sync state ---
    """
    CREATE TABLE runs (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        source text NOT NULL,
        reader text NOT NULL,
        item_source text,
        started_at timestamptz NOT NULL,
        finished_at timestamptz,
        state text NOT NULL CHECK (state IN ('running', 'complete', 'partial', 'failed')),
        reason text,
        counts jsonb NOT NULL DEFAULT '{}'
    )
    """,
    "CREATE INDEX runs_reader ON runs (source, reader, id DESC)",
    """
    CREATE TABLE checkpoints (
        source text NOT NULL,
        reader text NOT NULL,
        data jsonb NOT NULL,
        at timestamptz NOT NULL,
        PRIMARY KEY (source, reader)
    )
    """,
    """
    CREATE TABLE failures (
        uri text COLLATE "C" PRIMARY KEY,
        source text NOT NULL,
        reason text NOT NULL,
        first_at timestamptz NOT NULL,
        at timestamptz NOT NULL,
        attempts integer NOT NULL
    )
    """,
    """
    CREATE TABLE audit (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        at timestamptz NOT NULL,
        asker text NOT NULL,
        agent text,
        question_digest text NOT NULL,
        interpreted_as text NOT NULL,
        uris text[] NOT NULL,
        bundle_digest text,
        latency_ms double precision NOT NULL,
        outcome text NOT NULL
    )
    """,
    "CREATE INDEX audit_at ON audit (at)",
)


def upgrade() -> None:
    """Make every table."""
    for statement in STATEMENTS:
        op.execute(statement)


def downgrade() -> None:
    """Remove every table, and with them everything that is known."""
    op.execute(
        "DROP TABLE audit, failures, checkpoints, runs, supersessions, glossary, edges, links, item_aliases, chunks, "
        "items, scopes, permission_syncs, memberships, containers, people, directory_syncs, access_epoch"
    )
