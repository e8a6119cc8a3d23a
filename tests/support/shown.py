"""What each person of a world is shown by the stores, by the same steps that a question takes."""

from __future__ import annotations

from datetime import timedelta

from core import principals
from core.errors import IdentityError, UnresolvedIdentityError
from core.principals import issue_asker
from graph.db import Database
from graph.directory import DirectoryStore
from graph.scopes import ScopeStore
from query.principals import PrincipalResolver
from tests.support.ingest_side import IngestSide

# Access may be as old as a slow machine makes it: these tests ask who may read, not for how long.
_PATIENT = timedelta(days=1)


def shown_to_each(side: IngestSide) -> dict[str, set[str]]:
    """The addresses that each person may be given, by the person's key; nothing for whom no access can be told."""
    database: Database = side.database
    state = side.sandbox.state
    scopes = ScopeStore(database, revocation_limit=_PATIENT)
    resolver = PrincipalResolver(DirectoryStore(database, required=("teams", "azure_devops")), scopes)
    with database.connection() as connection:
        shown = connection.execute("SELECT uri, scope FROM items WHERE shown").fetchall()
    found: dict[str, set[str]] = {}
    for key in state.world.people:
        who = principals.user(state.tenant_id, state.oid(key))
        asker = issue_asker(principal=who, tenant=state.tenant_id, agent=None, scopes=frozenset())
        try:
            readable = set(scopes.trim_for(resolver.resolve(asker)).readable)
        except (IdentityError, UnresolvedIdentityError):
            readable = set()
        found[key] = {row["uri"] for row in shown if row["scope"] in readable}
    return found


def gained(after: dict[str, set[str]], *allowed: dict[str, set[str]]) -> dict[str, list[str]]:
    """What people are shown that none of the allowed views shows them."""
    more = {key: sorted(uris - set().union(*(view.get(key, set()) for view in allowed))) for key, uris in after.items()}
    return {key: uris for key, uris in more.items() if uris}
