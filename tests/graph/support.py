"""Small values for tests of the record."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from core.access import Gate, Layer, Scope, ScopeAcl, ScopeId, Trim
from core.clock import FixedClock
from core.directory import Container, DirectoryPerson, PersonKind
from core.items import Chunk, Item, ItemKind, Part, Source
from core.principals import Principal, PrincipalSet, issue_asker, issue_principal_set, parse
from graph.db import Database
from graph.records import ItemStore
from graph.scopes import ScopeStore

NOW = datetime(2026, 6, 1, 9, 0, tzinfo=UTC)
LIMIT = timedelta(minutes=5)
IRIS = parse("user:t/iris")
TEO = parse("user:t/teo")


def asking(*principals: Principal) -> PrincipalSet:
    """The set of someone who counts as these; the first is who they are."""
    asker = issue_asker(principal=principals[0], tenant="t", agent=None, scopes=frozenset())
    return issue_principal_set(asker, frozenset(principals))


def allow(*principals: Principal, node: str = "here") -> ScopeAcl:
    """A rule of one gate and one layer."""
    return ScopeAcl((Gate("object", (Layer(node, allow=frozenset(principals)),)),))


def scope(name: str, acl: ScopeAcl) -> Scope:
    """A scope of wikis."""
    return Scope(id=ScopeId(name), source="wikis", kind="wiki", name=name, acl=acl)


def member(name: str, *, kind: PersonKind = PersonKind.MEMBER, enabled: bool = True) -> DirectoryPerson:
    """An account of tenant t."""
    return DirectoryPerson(principal=parse(f"user:t/{name}"), name=name.title(), kind=kind, enabled=enabled)


def box(name: str, *members: Principal, unread: bool = False) -> Container:
    """A group of tenant t."""
    who = parse(f"group:t/{name}")
    return Container(principal=who, name=name, kind="group", members=None if unread else frozenset(members))


def group(name: str) -> Principal:
    """The principal of `box(name)`."""
    return parse(f"group:t/{name}")


def scope_store(db: Database, clock: FixedClock | None = None) -> ScopeStore:
    """Scopes under a clock that stands still."""
    return ScopeStore(db, revocation_limit=LIMIT, wall_clock=clock or FixedClock(NOW))


def item(uri: str, in_scope: str = "open", *, text: str = "Some words.", version: str = "1", **given: object) -> Item:
    """A wiki page."""
    values: dict[str, object] = {
        "uri": uri,
        "source": Source.WIKIS,
        "kind": ItemKind.WIKI_PAGE,
        "scope": ScopeId(in_scope),
        "title": f"Page {uri}",
        "url": f"https://dev.azure.com/org/project/{uri.removeprefix('ctx://')}",
        "parts": (Part(uri=uri, text=text),),
        "version": version,
        "created_at": NOW - timedelta(days=9),
        "modified_at": NOW - timedelta(days=1),
    }
    return Item(**(values | given))  # type: ignore[arg-type]


def chunks_of(of: Item) -> tuple[Chunk, ...]:
    """One chunk for each part."""
    return tuple(
        Chunk(uri=of.uri, ordinal=n, heading=(), text=x.text, embedded_text=f"{of.title}\n{x.text}", part_uris=(x.uri,))
        for n, x in enumerate(of.parts)
    )


def store(items: ItemStore, *given: Item) -> None:
    """Upsert items, and say that the index has them."""
    for one in given:
        items.upsert(one, chunks_of(one), at=NOW)
        items.record_indexed(one.uri, one.digest)


def open_trim(db: Database, *readable: str, who: Principal = IRIS) -> Trim:
    """A trim that opens these scopes and no other, made the only way there is: by rules."""
    scopes = scope_store(db)
    scopes.apply("wikis", [scope(name, allow(who)) for name in readable], complete=True, at=NOW)
    scopes.touch("wikis", NOW)
    return scopes.trim_for(asking(who))
