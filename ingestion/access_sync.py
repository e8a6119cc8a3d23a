"""Takes over who may read what: the rules and memberships that a connector reads are obeyed by the next question.

The payloads of the index follow after: until they have, a scope whose rule lets fewer people in than its points say is
blocked by the query itself, so how long a rewrite takes never matters to a revocation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from core.clock import Clock
from core.errors import SourceError
from core.index.port import IndexWriter
from graph.directory import DirectoryStore
from graph.runs import RunStore
from graph.scopes import ScopeStore
from ingestion.connector import AccessSnapshot, Connector
from ingestion.pipeline import Tally
from ingestion.report import RunReport, RunWriter, count_asked

ACCESS = "access"
MEMBERSHIPS = "memberships"
PLACES = "access/hints"


class AccessSync:
    """Reads permissions through connectors into the record, and brings the index's payloads up to it."""

    def __init__(
        self,
        *,
        scopes: ScopeStore,
        directory: DirectoryStore,
        runs: RunStore,
        index: IndexWriter,
        writer: RunWriter,
        clock: Clock,
    ) -> None:
        self._scopes = scopes
        self._directory = directory
        self._runs = runs
        self._index = index
        self._writer = writer
        self._clock = clock

    def sync_access(self, connector: Connector, *, rewrite: bool = True) -> RunReport:
        """Read the whole: people, memberships and rules. `rewrite` False leaves the payloads to `write_access`."""
        report = self._sync(connector, ACCESS, connector.access)
        if rewrite:
            self.write_access()
        return report

    def sync_memberships(self, connector: Connector) -> RunReport:
        """Read who belongs to what, and leave the rules as they are."""
        return self._sync(connector, MEMBERSHIPS, connector.memberships)

    def sync_places(self, connector: Connector, places: Sequence[str], *, rewrite: bool = True) -> RunReport:
        """Read again who may read these places; the whole where the connector can't do with less."""

        def read() -> AccessSnapshot:
            return connector.access_of(places) or connector.access()

        report = self._sync(connector, PLACES, read)
        if rewrite:
            self.write_access()
        return report

    def write_access(self, between: Callable[[], None] = lambda: None) -> int:
        """Rewrite the payload of scopes whose rule changed; return how many. Queries obey the new rule already; this
        only lets a grant be found and shortens the list of blocked scopes. `between` is called after each scope."""
        pending = self._scopes.pending()
        for scope_id, allowed, version in pending:
            self._index.set_access(scope_id, sorted(allowed), version)
            self._scopes.mark_indexed(scope_id, version)
            between()
        return len(pending)

    def _sync(self, connector: Connector, reader: str, read: Callable[[], AccessSnapshot]) -> RunReport:
        run = self._runs.start(connector.name, reader)
        tally, before = Tally(), connector.asked()
        at = self._clock.now()  # what is read is as old as the moment at which reading began
        try:
            snapshot = read()
        except SourceError as e:
            count_asked(connector, before, tally)
            return self._writer.end(run, connector.name, reader, "failed", tally, str(e))
        # Who belongs to what may be read without the rosters that come with the rules: those stay.
        kinds = snapshot.whole
        if kinds is None and snapshot.memberships_only and snapshot.complete:
            kinds = frozenset(c.kind for c in snapshot.containers)
        self._directory.apply(
            snapshot.source, snapshot.people, snapshot.containers, complete=snapshot.complete, at=at, kinds=kinds
        )
        if not snapshot.memberships_only:
            whole = snapshot.complete or snapshot.every_scope
            changes = self._scopes.apply(snapshot.source, snapshot.scopes, complete=whole, at=at)
            if whole:
                self._scopes.touch(snapshot.source, at)
            tally.add("scopes", len(snapshot.scopes))
            tally.add("changed", sum(c.changed for c in changes))
            tally.add("closed_scopes", sum(not s.acl.gates for s in snapshot.scopes))
        count_asked(connector, before, tally)
        _count_unknown(snapshot.unknown_principals, tally)
        tally.add("unread_containers", sum(c.half_known for c in snapshot.containers))
        if snapshot.complete or (reader == PLACES and not snapshot.notes):
            # What was read to its end may be odd all the same: a team of the settings that is not there, say.
            told = "; ".join(snapshot.notes) or None
            return self._writer.end(run, connector.name, reader, "complete", tally, told)
        reason = "; ".join(snapshot.notes) or "partial"
        return self._writer.end(run, connector.name, reader, "partial", tally, reason)


def _count_unknown(unknown: Mapping[str, int], tally: Tally) -> None:
    for kind, n in unknown.items():
        tally.add(f"unknown_principal_kind:{kind}", n)
