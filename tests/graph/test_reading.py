"""Trimmed reading: nothing of an unreadable scope comes out of any call, and names are found however they are typed."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.items import Contribution, Link, Part, PersonRef, Role, Source
from core.principals import parse
from graph.db import Database
from graph.edges import EdgeStore
from graph.glossary import GlossaryEntry, GlossaryStore
from graph.records import ItemStore
from graph.supersession import Supersession, SupersessionStore
from tests.graph.support import IRIS, NOW, TEO, item, open_trim, store

URIS = [f"ctx://ado/org/wikis/w/pages/{n}" for n in range(6)]
SCOPES = ["s0", "s1", "s2"]

pages = st.fixed_dictionaries(
    {
        "scope": st.sampled_from(SCOPES),
        "links": st.lists(st.sampled_from([*URIS, f"{URIS[0]}/comments/1", "https://example.org"]), max_size=3),
        "title": st.sampled_from(["Same", "Other"]),
        "replaced_by": st.lists(st.sampled_from(["same", "OTHER", URIS[1]]), max_size=1),
        "means": st.lists(st.sampled_from(["alpha beta", "gamma"]), max_size=2),
        "supersedes": st.lists(st.tuples(st.sampled_from(URIS), st.sampled_from(URIS)), max_size=2),
        "fate": st.sampled_from(["live", "live", "live", "hidden", "deleted", "not indexed"]),
    }
)


@pytest.fixture
def items(ingest_db: Database) -> ItemStore:
    return ItemStore(ingest_db)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(given_pages=st.lists(pages, min_size=3, max_size=6), readable=st.sets(st.sampled_from(SCOPES)))
def test_no_call_gives_anything_that_the_asker_may_not_read(
    ingest_db: Database, given_pages: list[dict[str, object]], readable: set[str]
) -> None:
    with ingest_db.connection() as connection:
        connection.execute("TRUNCATE items, scopes, permission_syncs CASCADE")
    whole = _answers(ingest_db, given_pages, readable, without=False)
    hidden = _answers(ingest_db, given_pages, readable, without=True)
    # Byte for byte what it would be if the rest did not exist.
    assert whole == hidden


def _answers(db: Database, given_pages: list[dict[str, object]], readable: set[str], *, without: bool) -> object:
    with db.connection() as connection:
        connection.execute("TRUNCATE items, scopes, permission_syncs CASCADE")
    items, edges, glossary, supersessions = ItemStore(db), EdgeStore(db), GlossaryStore(db), SupersessionStore(db)
    may_see = set()
    for uri, page in zip(URIS, given_pages, strict=False):
        visible = page["scope"] in readable and page["fate"] == "live"
        may_see |= {uri} if visible else set()
        if without and not visible:
            continue
        one = item(
            uri,
            str(page["scope"]),
            title=page["title"],
            url=f"https://example.org/{page['title']}",
            aliases=("shared",),
            number="7",
            container="Box",
            links=tuple(Link(to=to, rel="see") for to in page["links"]),  # type: ignore[attr-defined]
            replaced_by=tuple(page["replaced_by"]),  # type: ignore[arg-type]
            contributions=(Contribution(person=PersonRef("Teo", TEO), role=Role.WROTE, at=NOW, note=uri),),
        )
        store(items, one)
        glossary.replace(
            uri,
            [
                GlossaryEntry(term="AB", key="ab", meaning=m, meaning_key=m, quote=uri, at=NOW, method="stated")
                for m in page["means"]  # type: ignore[attr-defined]
            ],
        )
        supersessions.replace(
            uri,
            [
                Supersession(old_uri=old, new_uri=new, kind="mined", confidence=0.5, quote=uri)
                for old, new in page["supersedes"]  # type: ignore[attr-defined]
            ],
        )
        match page["fate"]:
            case "hidden":
                items.hide(uri, "404", NOW)
            case "deleted":
                items.tombstone([uri], at=NOW, reason="deleted")
            case "not indexed":
                items.upsert(item(uri, str(page["scope"]), version="2", text="newer"), (), at=NOW)
    trim = open_trim(db, *sorted(readable))
    seen = items.visible(trim, URIS)
    assert seen.keys() == may_see
    found = {
        "links from": items.links_from(trim, URIS),
        "links to": items.links_to(trim, URIS),
        "people": (edges.of_items(trim, URIS), edges.of_person(trim, TEO, 10)),
        "terms": (glossary.keys(trim), glossary.find_keys(trim, ["ab"]), glossary.meanings(trim, "ab")),
        "long": glossary.long_forms(trim, ["alpha", "beta"]),
        "replaced": [supersessions.of(trim, [uri]) for uri in sorted(may_see)],
        "found": [
            items.find(trim, title="same"),
            items.find(trim, alias="SHARED"),
            items.named(trim, ["Shared", "nothing"]),
            items.find(trim, number="7"),
            items.find(trim, container="box"),
            items.find(trim, url="https://example.org/Same"),
        ],
        "full": [items.full(trim, uri) for uri in URIS],
    }
    named = {end for ends in (found["links from"], found["links to"]) for link in ends for end in link[:2]}  # type: ignore[index, attr-defined]
    assert {end for end in named if end.startswith("ctx://")} <= may_see
    replaced = [s for rows in found["replaced"] for s in rows]  # type: ignore[attr-defined]
    assert {end for s in replaced for end in (s.old_uri, s.new_uri, s.evidence_uri)} <= may_see
    return seen, found


def test_links_lead_to_items_that_the_asker_may_read_and_outside(items: ItemStore, ingest_db: Database) -> None:
    start = item(
        URIS[0],
        links=(
            Link(to=f"{URIS[1]}/comments/3", rel="see"),
            Link(to="ctx://ado/org/work-items/7/comments/3", rel="see"),
            Link(to=URIS[2], rel="see"),
            Link(to="https://example.org/a", rel="cites"),
        ),
    )
    store(
        items,
        start,
        item("ctx://ado/org/work-items/7"),
        item(URIS[2], "shut"),
    )
    trim = open_trim(ingest_db, "open")
    assert items.links_from(trim, [URIS[0]]) == [
        (URIS[0], "ctx://ado/org/work-items/7", "see"),
        (URIS[0], "https://example.org/a", "cites"),
    ]
    assert items.links_to(trim, ["ctx://ado/org/work-items/7", URIS[2]]) == [
        (URIS[0], "ctx://ado/org/work-items/7", "see")
    ]


def test_names_are_found_without_regard_to_case_and_unicode_form(items: ItemStore, ingest_db: Database) -> None:
    composed, decomposed = "Überführung Café", "U\u0308berfu\u0308hrung Cafe\u0301"
    store(items, item(URIS[0], title=composed, aliases=(decomposed,)), item(URIS[1], title=decomposed))
    trim = open_trim(ingest_db, "open")
    for typed in (composed, decomposed, composed.upper(), f"  {decomposed.lower()} "):
        assert [r.uri for r in items.find(trim, title=typed)] == URIS[:2]
        assert [r.uri for r in items.find(trim, alias=typed)] == URIS[:1]
    assert items.find(trim, title=composed)[0].title == composed


def test_a_url_is_found_whatever_its_fragment_and_the_order_of_its_parameters(
    items: ItemStore, ingest_db: Database
) -> None:
    one = item(
        URIS[0],
        url="https://dev.azure.com/org/My%20Project/_git/repo?path=/src/x.py&version=GBmain",
        aliases=("https://grafana.example/d/uid/gateway?viewPanel=7&orgId=1", "uid/7"),
    )
    store(items, one)
    trim = open_trim(ingest_db, "open")
    for typed in (
        "https://dev.azure.com/org/My%20Project/_git/repo?version=GBmain&path=%2Fsrc%2Fx.py",
        "HTTPS://dev.azure.com/org/My Project/_git/repo/?path=/src/x.py&version=GBmain#L7",
        "https://grafana.example/d/uid/gateway?orgId=1&viewPanel=7#top",
    ):
        assert [r.uri for r in items.find(trim, url=typed)] == [URIS[0]], typed
    assert items.find(trim, url="https://grafana.example/d/uid/gateway?orgId=1&viewPanel=8") == []
    assert [r.uri for r in items.find(trim, alias="UID/7", source=Source.WIKIS)] == [URIS[0]]
    assert items.find(trim, alias="uid/7", source=Source.CODE) == []
    assert items.find(trim) == []


def test_odd_questions_are_no_errors(items: ItemStore, ingest_db: Database) -> None:
    trim = open_trim(ingest_db, "open")
    assert items.visible(trim, ["\x00", "not an address"]) == {}
    assert items.find(trim, title="\x00") == []
    assert items.find(trim, url="http://[broken") == []
    assert items.full(trim, "ctx://\x00") is None
    assert GlossaryStore(ingest_db).find_keys(trim, ["\x00", "'; DROP TABLE items"]) == set()


def test_the_full_text_says_whose_comments_are(items: ItemStore, ingest_db: Database) -> None:
    parts = (
        Part(uri=URIS[0], text="Description", heading=("Top", "Sub")),
        Part(uri=f"{URIS[0]}/comments/1", text="Agreed.", author=PersonRef("Teo", TEO), at=NOW),
    )
    store(items, item(URIS[0], parts=parts))
    found = items.full(open_trim(ingest_db, "open"), URIS[0])
    assert found is not None
    assert found[1] == "## Top › Sub\n\nDescription\n\n**Teo, 2026-06-01**\n\nAgreed."


def test_a_short_form_has_every_meaning_that_the_asker_may_read_of(items: ItemStore, ingest_db: Database) -> None:
    glossary = GlossaryStore(ingest_db)

    def entry(meaning: str, days: int) -> GlossaryEntry:
        at = NOW - timedelta(days=days)
        return GlossaryEntry(
            term="ETA", key="eta", meaning=meaning, meaning_key=meaning.lower(), quote="q", at=at, method="stated"
        )

    store(items, item(URIS[0], author=PersonRef("Teo", TEO), container="Nav"), item(URIS[1], "lab"))
    glossary.replace(URIS[0], [entry("Estimated Time of Arrival", 3)])
    glossary.replace(URIS[1], [entry("Engine Test Area", 1)])
    both, one = open_trim(ingest_db, "lab", "open"), open_trim(ingest_db, "open")
    assert [m.meaning for m in glossary.meanings(both, "eta")] == ["Engine Test Area", "Estimated Time of Arrival"]
    [row] = glossary.meanings(one, "eta")
    assert (row.meaning, row.container, row.author) == ("Estimated Time of Arrival", "Nav", PersonRef("Teo", TEO))
    words = ["what", "is", "the", "engine", "test", "area"]
    assert [r.key for r in glossary.long_forms(both, words)] == ["eta"]
    assert glossary.long_forms(one, words) == []
    glossary.replace(URIS[0], [])
    assert glossary.meanings(one, "eta") == []


def test_edges_of_a_person_come_newest_first(items: ItemStore, ingest_db: Database) -> None:
    def by(who: PersonRef, days: int | None) -> Contribution:
        return Contribution(
            person=who, role=Role.CLOSED, at=None if days is None else NOW - timedelta(days=days), note="n"
        )

    teo, namesake = PersonRef("Teo", TEO), PersonRef("Teo", parse("user:t/other"))
    store(
        items,
        item(URIS[0], contributions=(by(teo, 5), by(teo, None))),
        item(URIS[1], contributions=(by(teo, 1), by(namesake, 0), by(PersonRef("Teo"), 0))),
    )
    trim = open_trim(ingest_db, "open", who=IRIS)
    edges = EdgeStore(ingest_db)
    assert [e.at for e in edges.of_person(trim, TEO, 10)] == [NOW - timedelta(days=1), NOW - timedelta(days=5), None]
    assert len(edges.of_person(trim, TEO, 2)) == 2
    assert [e.person for e in edges.of_items(trim, [URIS[1]])] == [TEO, namesake.principal, None]


def test_a_successor_named_by_title_is_matched_among_what_the_asker_may_read(
    items: ItemStore, ingest_db: Database
) -> None:
    supersessions = SupersessionStore(ingest_db)
    store(
        items,
        item(URIS[0], title="Onboarding", replaced_by=("Partner Onboarding", "https://example.org/new?b=1&a=2")),
        item(URIS[1], title="partner onboarding"),
        item(URIS[2], "shut", title="Partner onboarding"),
        item(URIS[3], title="New", url="https://example.org/new?a=2&b=1"),
    )
    trim = open_trim(ingest_db, "open")
    found = supersessions.of(trim, [URIS[0]])
    assert [(s.old_uri, s.new_uri, s.kind, s.evidence_uri) for s in found] == [
        (URIS[0], URIS[1], "declared", URIS[0]),
        (URIS[0], URIS[3], "declared", URIS[0]),
    ]
    assert supersessions.of(trim, [URIS[1]]) == found[:1]
    # To whom both pages of that title are open, the name says nothing.
    both = open_trim(ingest_db, "open", "shut")
    assert [s.new_uri for s in supersessions.of(both, [URIS[0]])] == [URIS[3]]
