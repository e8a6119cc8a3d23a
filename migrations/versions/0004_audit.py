"""The audit log as a chain of hashes that can only be appended to; what was withheld, and the questions to find it by.

How a row is hashed stands in `audit_hash` here and, written a second time, in `graph.audit_chain`; docs/audit.md
describes it. A later revision that adds a column to `audit` has to leave old rows hashed as they are.

Revision ID: 0004_audit
Revises: 0003_schedule_and_hooks
"""

from __future__ import annotations

from alembic import op

revision = "0004_audit"
down_revision = "0003_schedule_and_hooks"
branch_labels = None
depends_on = None

_NOTHING = "0" * 64

TABLES = (
    "ALTER TABLE audit RENAME TO audit_before",
    "ALTER TABLE audit_before RENAME CONSTRAINT audit_pkey TO audit_before_pkey",
    "ALTER INDEX audit_at RENAME TO audit_before_at",
    # `at` is what the query plane's clock said, `recorded_at` what the database's did. `plane` and `detail` are written
    # by functions of the audit plane only. Words (`question_digest`, `interpreted_as`) and the salt of their digest can
    # be erased together, and the chain still holds.
    """
    CREATE TABLE audit (
        seq bigint PRIMARY KEY,
        recorded_at timestamptz NOT NULL,
        at timestamptz NOT NULL CHECK (at >= '2000-01-01' AND at < '9999-01-01'),
        plane text NOT NULL DEFAULT 'query',
        operation text NOT NULL,
        asker text NOT NULL,
        agent text,
        question_digest text,
        interpreted_as text,
        salt bytea,
        words_digest text NOT NULL,
        uris text[] NOT NULL CHECK (coalesce(array_ndims(uris), 1) = 1 AND array_position(uris, NULL) IS NULL),
        bundle_digest text,
        latency_ms numeric(12, 3) NOT NULL CHECK (latency_ms BETWEEN 0 AND 999999999),
        outcome text NOT NULL,
        checks json NOT NULL DEFAULT '[]' CHECK (json_typeof(checks) = 'array'),
        detail json NOT NULL DEFAULT '{}' CHECK (json_typeof(detail) = 'object'),
        previous_hash text NOT NULL,
        hash text NOT NULL,
        CONSTRAINT audit_words CHECK (num_nulls(question_digest, interpreted_as, salt) IN (0, 3)),
        CONSTRAINT audit_operations CHECK (
            CASE plane WHEN 'query' THEN operation IN ('context', 'item', 'people', 'definitions', 'status')
                WHEN 'audit' THEN operation IN ('prune', 'erase', 'unchained') ELSE false END)
    )
    """,
    "CREATE INDEX audit_recorded_at ON audit (recorded_at, seq)",
    "CREATE INDEX audit_asker ON audit (asker, seq)",
    # The last link: whoever appends locks it, so that links are made one after the other. `written_by` is the
    # transaction that did, by which a question finds its entry.
    """
    CREATE TABLE audit_head (
        only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
        seq bigint NOT NULL,
        hash text NOT NULL,
        recorded_at timestamptz NOT NULL,
        written_by xid8 NOT NULL
    ) WITH (fillfactor = 20)
    """,
    f"INSERT INTO audit_head (seq, hash, recorded_at, written_by) VALUES (0, '{_NOTHING}', 'epoch', '0')",  # noqa: S608
    # The last entry that retention took: the rest is a chain from there.
    """
    CREATE TABLE audit_anchor (
        only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
        seq bigint NOT NULL,
        hash text NOT NULL
    )
    """,
    f"INSERT INTO audit_anchor (seq, hash) VALUES (0, '{_NOTHING}')",  # noqa: S608
    # Questions in full, until it was worked out what was withheld from their answers, and for an hour at most.
    """
    CREATE TABLE audit_questions (
        seq bigint PRIMARY KEY,
        asked_at timestamptz NOT NULL,
        question text NOT NULL,
        as_of timestamptz,
        focus text[] NOT NULL,
        spaces text[]
    )
    """,
    # One row a question that was looked into, or was not in time; `epoch` is the access epoch that this was done under.
    """
    CREATE TABLE audit_examinations (
        seq bigint PRIMARY KEY,
        at timestamptz NOT NULL DEFAULT clock_timestamp(),
        outcome text NOT NULL CHECK (outcome IN ('examined', 'expired', 'no_account')),
        epoch bigint,
        same_epoch boolean,
        looked_at integer NOT NULL DEFAULT 0,
        withheld integer NOT NULL DEFAULT 0
    )
    """,
    """
    CREATE TABLE audit_withheld (
        seq bigint NOT NULL,
        rank integer NOT NULL,
        uri text NOT NULL,
        source text NOT NULL,
        scope text NOT NULL,
        relevance double precision NOT NULL,
        bars text[] NOT NULL,
        gates text[] NOT NULL,
        PRIMARY KEY (seq, rank)
    )
    """,
)

FUNCTIONS = (
    # One field: the number of its bytes, a colon, and the bytes; `-:` where there is none.
    """
    CREATE FUNCTION audit_field(value text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
        SELECT coalesce(octet_length(value)::text || ':' || value, '-:')
    $$
    """,
    """
    CREATE FUNCTION audit_words_digest(salt bytea, question_digest text, interpreted_as text) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
        SELECT encode(sha256(salt || convert_to(
            public.audit_field(question_digest) || public.audit_field(interpreted_as), 'UTF8')), 'hex')
    $$
    """,
    """
    CREATE FUNCTION audit_hash(entry audit) RETURNS text LANGUAGE sql STABLE
    SET search_path = pg_catalog, pg_temp AS $$
        SELECT encode(sha256(convert_to(
            public.audit_field('context-engine audit 1')
            || public.audit_field(entry.previous_hash)
            || public.audit_field(entry.seq::text)
            || public.audit_field((extract(epoch FROM entry.recorded_at) * 1000000)::bigint::text)
            || public.audit_field((extract(epoch FROM entry.at) * 1000000)::bigint::text)
            || public.audit_field(entry.plane)
            || public.audit_field(entry.operation)
            || public.audit_field(entry.asker)
            || public.audit_field(entry.agent)
            || public.audit_field(entry.words_digest)
            || public.audit_field(cardinality(entry.uris)::text)
            || coalesce((SELECT string_agg(public.audit_field(u.uri), '' ORDER BY u.n)
                         FROM unnest(entry.uris) WITH ORDINALITY AS u (uri, n)), '')
            || public.audit_field(entry.bundle_digest)
            || public.audit_field(entry.latency_ms::text)
            || public.audit_field(entry.outcome)
            || public.audit_field(entry.checks::text)
            || public.audit_field(entry.detail::text), 'UTF8')), 'hex')
    $$
    """,
    # The caller chooses neither place, time of record, salt nor hash: whatever it sends for them is written over.
    """
    CREATE FUNCTION audit_append() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp SET lock_timeout = '10s' AS $$
    DECLARE
        head public.audit_head;
    BEGIN
        SELECT * INTO STRICT head FROM public.audit_head FOR UPDATE;
        NEW.seq := head.seq + 1;
        NEW.recorded_at := greatest(clock_timestamp(), head.recorded_at);
        NEW.salt := uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid());
        NEW.words_digest := public.audit_words_digest(NEW.salt, NEW.question_digest, NEW.interpreted_as);
        NEW.previous_hash := head.hash;
        NEW.hash := public.audit_hash(NEW);
        UPDATE public.audit_head SET seq = NEW.seq, hash = NEW.hash, recorded_at = NEW.recorded_at,
            written_by = pg_current_xact_id();
        RETURN NEW;
    END $$
    """,
    # No question is kept for longer than an hour, looked into or not.
    """
    CREATE FUNCTION audit_forget_questions() RETURNS integer LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp AS $$
    DECLARE
        gone integer;
    BEGIN
        WITH expired AS (
            DELETE FROM public.audit_questions WHERE asked_at < clock_timestamp() - interval '1 hour' RETURNING seq
        ) INSERT INTO public.audit_examinations (seq, outcome) SELECT seq, 'expired' FROM expired
            ON CONFLICT DO NOTHING;
        GET DIAGNOSTICS gone = ROW_COUNT;
        RETURN gone;
    END $$
    """,
    # A question belongs to the entry that its own transaction has just appended, and to no other.
    """
    CREATE FUNCTION audit_keep_question() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp AS $$
    DECLARE
        head public.audit_head;
    BEGIN
        SELECT * INTO STRICT head FROM public.audit_head;
        IF head.written_by <> pg_current_xact_id() THEN
            RAISE insufficient_privilege USING MESSAGE =
                'a question is kept by the transaction that records its answer, and by no other';
        END IF;
        NEW.seq := head.seq;
        NEW.asked_at := head.recorded_at;
        PERFORM public.audit_forget_questions();
        DELETE FROM public.audit_questions WHERE seq >= NEW.seq;
        RETURN NEW;
    END $$
    """,
    # Whoever may try: an entry is never changed but for the erasure of its words, and goes only behind the anchor.
    """
    CREATE FUNCTION audit_only_words_go() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp AS $$
    DECLARE
        blank public.audit := OLD;
    BEGIN
        blank.question_digest := NULL;
        blank.interpreted_as := NULL;
        blank.salt := NULL;
        IF NEW::text IS DISTINCT FROM blank::text THEN
            RAISE insufficient_privilege USING MESSAGE = 'entries of the audit log are not changed';
        END IF;
        RETURN NEW;
    END $$
    """,
    """
    CREATE FUNCTION audit_only_pruned_go() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp AS $$
    BEGIN
        IF OLD.seq > (SELECT seq FROM public.audit_anchor) THEN
            RAISE insufficient_privilege USING MESSAGE =
                'entries of the audit log go by retention only: context-engine audit prune';
        END IF;
        RETURN OLD;
    END $$
    """,
    """
    CREATE FUNCTION audit_never() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
    BEGIN
        RAISE insufficient_privilege USING MESSAGE = TG_TABLE_NAME || ' can''t be changed like that';
    END $$
    """,
    # The head moves with an entry, by the trigger above; the anchor moves on, and to an entry that is there.
    """
    CREATE FUNCTION audit_head_follows() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
    BEGIN
        IF pg_trigger_depth() < 2 OR NEW.seq <> OLD.seq + 1 THEN
            RAISE insufficient_privilege USING MESSAGE = 'the head of the audit log moves with its entries';
        END IF;
        RETURN NEW;
    END $$
    """,
    """
    CREATE FUNCTION audit_anchor_moves_on() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp AS $$
    BEGIN
        IF NEW.seq <= OLD.seq OR NOT EXISTS (
            SELECT 1 FROM public.audit a WHERE a.seq = NEW.seq AND a.hash = NEW.hash
            AND a.recorded_at < clock_timestamp() - interval '1 day'
        ) THEN
            RAISE insufficient_privilege USING MESSAGE = 'the anchor moves on, to an entry older than a day';
        END IF;
        RETURN NEW;
    END $$
    """,
    # Retention, first half: from now on the chain begins behind the last entry from before that time. Says how many
    # entries that are; the entry that records it stands in the chain itself.
    """
    CREATE FUNCTION audit_prune(before timestamptz) RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp AS $$
    DECLARE
        anchor public.audit_anchor;
        last record;
    BEGIN
        IF before > clock_timestamp() - interval '1 day' THEN
            RAISE invalid_parameter_value USING MESSAGE = 'what was recorded within the last day is kept';
        END IF;
        PERFORM 1 FROM public.audit_head FOR UPDATE;
        SELECT * INTO STRICT anchor FROM public.audit_anchor;
        SELECT a.seq, a.hash INTO last FROM public.audit a
            WHERE a.recorded_at < before AND a.seq > anchor.seq ORDER BY a.recorded_at DESC, a.seq DESC LIMIT 1;
        IF NOT FOUND THEN
            RETURN 0;
        END IF;
        UPDATE public.audit_anchor SET seq = last.seq, hash = last.hash;
        INSERT INTO public.audit
            (at, plane, operation, asker, question_digest, interpreted_as, uris, latency_ms, outcome, detail)
        VALUES (clock_timestamp(), 'audit', 'prune', 'role:' || session_user, '', '', '{}', 0, 'ok',
            json_build_object('through', last.seq, 'hash', last.hash, 'entries', last.seq - anchor.seq));
        RETURN last.seq - anchor.seq;
    END $$
    """,
    # Second half, some rows at a time, so that nobody who appends waits for it: what lies behind the anchor goes.
    """
    CREATE FUNCTION audit_sweep(most integer) RETURNS integer LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp AS $$
    DECLARE
        upto bigint;
        gone integer;
    BEGIN
        SELECT max(old.seq) INTO upto FROM (
            SELECT a.seq FROM public.audit a, public.audit_anchor anchor WHERE a.seq <= anchor.seq
            ORDER BY a.seq LIMIT most) AS old;
        DELETE FROM public.audit_withheld WHERE seq <= upto;
        DELETE FROM public.audit_examinations WHERE seq <= upto;
        DELETE FROM public.audit_questions WHERE seq <= upto;
        DELETE FROM public.audit WHERE seq <= upto;
        GET DIAGNOSTICS gone = ROW_COUNT;
        RETURN gone;
    END $$
    """,
    # Erasure: the words of these entries go, with what their digest was salted with, and the chain records which.
    """
    CREATE FUNCTION audit_erase_words(entries bigint[]) RETURNS integer LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp AS $$
    DECLARE
        blanked bigint[];
    BEGIN
        WITH gone AS (
            UPDATE public.audit SET question_digest = NULL, interpreted_as = NULL, salt = NULL
            WHERE seq = ANY(entries) AND salt IS NOT NULL RETURNING seq
        ) SELECT array_agg(seq ORDER BY seq) INTO blanked FROM gone;
        DELETE FROM public.audit_questions WHERE seq = ANY(entries);
        IF blanked IS NULL THEN
            RETURN 0;
        END IF;
        INSERT INTO public.audit
            (at, plane, operation, asker, question_digest, interpreted_as, uris, latency_ms, outcome, detail)
        VALUES (clock_timestamp(), 'audit', 'erase', 'role:' || session_user, '', '', '{}', 0, 'ok',
            json_build_object('entries', blanked));
        RETURN cardinality(blanked);
    END $$
    """,
)
_NOT_FOR_EVERYBODY = (
    "audit_field(text)",
    "audit_words_digest(bytea, text, text)",
    "audit_hash(audit)",
    "audit_append()",
    "audit_forget_questions()",
    "audit_keep_question()",
    "audit_only_words_go()",
    "audit_only_pruned_go()",
    "audit_never()",
    "audit_head_follows()",
    "audit_anchor_moves_on()",
    "audit_prune(timestamptz)",
    "audit_sweep(integer)",
    "audit_erase_words(bigint[])",
)
TRIGGERS = (
    "CREATE TRIGGER append BEFORE INSERT ON audit FOR EACH ROW EXECUTE FUNCTION audit_append()",
    "CREATE TRIGGER only_words_go BEFORE UPDATE ON audit FOR EACH ROW EXECUTE FUNCTION audit_only_words_go()",
    "CREATE TRIGGER keep BEFORE INSERT ON audit_questions FOR EACH ROW EXECUTE FUNCTION audit_keep_question()",
    "CREATE TRIGGER never BEFORE UPDATE ON audit_questions FOR EACH STATEMENT EXECUTE FUNCTION audit_never()",
    "CREATE TRIGGER follows BEFORE UPDATE ON audit_head FOR EACH ROW EXECUTE FUNCTION audit_head_follows()",
    "CREATE TRIGGER moves_on BEFORE UPDATE ON audit_anchor FOR EACH ROW EXECUTE FUNCTION audit_anchor_moves_on()",
    *(
        f"CREATE TRIGGER only_pruned_go BEFORE DELETE ON {table} FOR EACH ROW EXECUTE FUNCTION audit_only_pruned_go()"
        for table in ("audit", "audit_examinations", "audit_withheld")
    ),
    *(
        f"CREATE TRIGGER never BEFORE {what} ON {table} FOR EACH STATEMENT EXECUTE FUNCTION audit_never()"
        for table, what in {
            "audit": "TRUNCATE",
            "audit_head": "INSERT OR DELETE OR TRUNCATE",
            "audit_anchor": "INSERT OR DELETE OR TRUNCATE",
            "audit_examinations": "UPDATE OR TRUNCATE",
            "audit_withheld": "UPDATE OR TRUNCATE",
        }.items()
    ),
)
# What was recorded before there was a chain: its time of record is that of this migration, which is the truth.
_CHAIN_WHAT_WAS_THERE = (
    "SET LOCAL statement_timeout = '30min'",
    """
    INSERT INTO audit (at, plane, operation, asker, agent, question_digest, interpreted_as, uris, bundle_digest,
        latency_ms, outcome)
    SELECT at, 'audit', 'unchained', asker, agent, question_digest, interpreted_as, uris, bundle_digest,
        latency_ms, outcome FROM audit_before ORDER BY id
    """,
    "DROP TABLE audit_before",
)


def upgrade() -> None:
    """Make the chain, and put what was recorded before at its beginning."""
    for statement in (*TABLES, *FUNCTIONS):
        op.execute(statement)
    for function in _NOT_FOR_EVERYBODY:
        op.execute(f"REVOKE ALL ON FUNCTION {function} FROM PUBLIC")
    for statement in (*TRIGGERS, *_CHAIN_WHAT_WAS_THERE):
        op.execute(statement)


def downgrade() -> None:
    """Go back to a plain log. Hashes, retention's anchor and what was withheld are lost; erased words stay erased."""
    for statement in (
        """
        CREATE TABLE audit_before (
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
        """
        INSERT INTO audit_before (at, asker, agent, question_digest, interpreted_as, uris, bundle_digest, latency_ms,
            outcome)
        SELECT at, asker, agent, coalesce(question_digest, ''), coalesce(interpreted_as, ''), uris, bundle_digest,
            latency_ms, outcome FROM audit WHERE plane = 'query' OR operation = 'unchained' ORDER BY seq
        """,
        "DROP FUNCTION audit_hash(audit)",
        "DROP TABLE audit, audit_head, audit_anchor, audit_questions, audit_examinations, audit_withheld",
        *(f"DROP FUNCTION {f}" for f in _NOT_FOR_EVERYBODY if f != "audit_hash(audit)"),
        "ALTER TABLE audit_before RENAME TO audit",
        "ALTER TABLE audit RENAME CONSTRAINT audit_before_pkey TO audit_pkey",
        "CREATE INDEX audit_at ON audit (at)",
    ):
        op.execute(statement)
