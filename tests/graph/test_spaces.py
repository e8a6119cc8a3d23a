"""An application on its own sees what it was granted and what its policy lists, both."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.access import Scope, ScopeId
from core.principals import Principal, PrincipalSet, issue_asker, issue_principal_set
from core.spaces import KINDS, Space, parse_space, spaces_of
from graph.db import Database
from graph.scopes import ScopeStore
from tests.graph.support import IRIS, NOW, TEO, allow, scope_store


def place(scope_id: str, *, kind: str = "repo", name: str = "", who: Principal = IRIS, **attributes: str) -> Scope:
    """A scope that one account may read."""
    source = "teams" if kind.endswith("channel") else "azure_devops"
    return Scope(
        id=ScopeId(scope_id), source=source, kind=kind, name=name or scope_id, acl=allow(who), attributes=attributes
    )


PLACES = (
    place("ado/o/repo/1", name="Harbor/guide", project="Harbor", project_id="p-1"),
    place("ado/o/wiki/2", kind="wiki", name="Harbor/Handbook", project="Harbor", project_id="p-1"),
    place("ado/o/repo/3", name="Dock/tool", project="Dock", project_id="p-2"),
    place("teams/t/channel/4", kind="standard channel", name="Crew/General", team="Crew", team_id="t-1"),
    place("teams/t/channel/5", kind="private channel", name="Crew/Pay", team="Crew", team_id="t-1"),
    place("ado/o/repo/6", name="Harbor/secret", who=TEO, project="Harbor", project_id="p-1"),
)
GRANTED = frozenset(p.id for p in PLACES if p.id != "ado/o/repo/6")


def application(*spaces: str, who: Principal = IRIS) -> PrincipalSet:
    """An application whose policy lists these."""
    policy = frozenset[str](parse_space(s) for s in spaces)
    asker = issue_asker(principal=who, tenant="t", agent=None, scopes=frozenset(), spaces=policy)
    return issue_principal_set(asker, frozenset({who}))


def person() -> PrincipalSet:
    """The same account with a person behind it."""
    return issue_principal_set(
        issue_asker(principal=IRIS, tenant="t", agent=None, scopes=frozenset()), frozenset({IRIS})
    )


@pytest.fixture
def scopes(ingest_db: Database) -> ScopeStore:
    store = scope_store(ingest_db)
    store.apply("c", PLACES, complete=True, at=NOW)
    store.touch("c", NOW)
    return store


@pytest.mark.parametrize(
    ("space", "opened"),
    [
        ("project:harbor", {"ado/o/repo/1", "ado/o/wiki/2"}),
        ("project:P-1", {"ado/o/repo/1", "ado/o/wiki/2"}),
        ("team:Crew", {"teams/t/channel/4", "teams/t/channel/5"}),
        ("team:t-1", {"teams/t/channel/4", "teams/t/channel/5"}),
        ("scope:ado/o/repo/3", {"ado/o/repo/3"}),
        ("scope:Crew/General", {"teams/t/channel/4"}),
        ("kind:wiki", {"ado/o/wiki/2"}),
        ("source:teams", {"teams/t/channel/4", "teams/t/channel/5"}),
        ("scope:ado/o/repo/6", set()),
        ("project:No such project", set()),
        ("team:Harbor", set()),
        ("project:", None),
        ("projects:Harbor", None),
        ("Harbor", None),
    ],
)
def test_a_space_opens_what_it_names_of_what_was_granted(
    scopes: ScopeStore, space: str, opened: set[str] | None
) -> None:
    if opened is None:
        with pytest.raises(ValueError, match="not a space"):
            parse_space(space)
        return
    trim = scopes.trim_for(application(space))
    assert trim.readable == opened
    assert set(trim.blocked) == GRANTED - opened
    assert trim.sees_nothing == (not opened)


@given(
    st.lists(st.sampled_from(["project:Harbor", "project:Dock", "team:Crew", "kind:repo", "scope:x", "source:teams"]))
)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_an_application_sees_the_intersection_and_each_space_adds_its_own(
    scopes: ScopeStore, spaces: list[str]
) -> None:
    listed = {s.id for s in PLACES if _spaces(s) & {parse_space(x) for x in spaces}}
    trim = scopes.trim_for(application(*spaces))
    assert trim.readable == GRANTED & listed
    assert trim.readable <= scopes.trim_for(person()).readable == GRANTED


def test_a_person_s_trim_and_an_application_s_are_never_one_another_s(scopes: ScopeStore) -> None:
    assert scopes.trim_for(person()).readable == GRANTED
    assert scopes.trim_for(application("kind:wiki")).readable == {"ado/o/wiki/2"}
    assert scopes.trim_for(application("project:Dock")).readable == {"ado/o/repo/3"}
    assert scopes.trim_for(person()).readable == GRANTED


def test_a_scope_that_was_renamed_counts_by_its_new_name_at_once(scopes: ScopeStore) -> None:
    assert scopes.trim_for(application("project:Dock")).readable == {"ado/o/repo/3"}
    moved = place("ado/o/repo/3", name="Quay/tool", project="Quay", project_id="p-2")
    scopes.apply("c", [moved], complete=False, at=NOW)
    assert scopes.trim_for(application("project:Dock")).readable == set()
    assert scopes.trim_for(application("project:Quay")).readable == {"ado/o/repo/3"}


@given(st.sampled_from(sorted(KINDS)), st.text(min_size=1))
@settings(deadline=None)
def test_a_space_is_spelt_in_one_way(kind: str, name: str) -> None:
    try:
        once = parse_space(f"{kind}:{name}")
    except ValueError:
        assert not name.strip()
        return
    assert parse_space(once) == once


def _spaces(scope: Scope) -> frozenset[Space]:
    return spaces_of(scope=scope.id, source=scope.source, kind=scope.kind, name=scope.name, attributes=scope.attributes)
