"""Wikis as they are: pages that move, links in every spelling, order, attachments, owners, code wikis."""

from __future__ import annotations

import re
from typing import Any

import pytest

from core.items import Role
from fixtures.sandbox import state_additions as add
from fixtures.sandbox.server import SandboxServer
from ingestion.connector import ItemUpserted, Unlisted
from tests.ingestion.azure_devops.small_worlds import Serve, happen, read
from tests.ingestion.azure_devops.support import Store, connect, reader_of
from tests.sandbox.small import commit, page


def wiki(**pages: Any) -> dict[str, Any]:
    """A project wiki; names of pages come by `paths`."""
    return {"wikis": {"Docs": {"pages": pages}}}


def by_title(store: Store) -> dict[str, Any]:
    return {item.title: item for item in store.items.values()}


def links_of(store: Store, title: str) -> set[str]:
    return {link.to for link in by_title(store)[title].links}


def test_a_page_that_moves_stays_one_item_that_its_old_path_still_finds(serve: Serve) -> None:
    """C048"""
    pages = {"Harbour/Fuel plan": page("The fuel plan."), "Start": page("see [plan](/Harbour/Fuel-plan)")}
    server = serve(project=wiki(**pages))
    connector, store = connect(server), Store()
    store.sync(connector, ["wikis"])
    uri = by_title(store)["Fuel plan"].uri
    assert links_of(store, "Start") == {uri}
    happen(server, move={"item": "wiki:Docs/Harbour/Fuel plan", "to": "wiki:Docs/Archive/Fuel plan 2030"})
    store.sync(connector, ["wikis"])
    assert len(store.items) == 2
    moved = store.items[uri]
    assert (moved.title, moved.attributes["parent"]) == ("Fuel plan 2030", "/Archive")
    assert "/Harbour/Fuel plan" in moved.aliases
    assert moved.attributes["moved_from"] == "/Harbour/Fuel plan"
    assert "moved_from" not in by_title(store)["Start"].attributes
    assert "wiki/" in moved.scope
    assert store.items == read(server, "wikis").items
    connector.close()


def test_a_link_is_understood_in_every_spelling_and_an_address_is_encoded_once(serve: Serve) -> None:
    """C073"""
    path = "Oppstart/Onboarding for nye utviklere på kai"
    spellings = [
        "/Oppstart/Onboarding%20for%20nye%20utviklere%20p%C3%A5%20kai",
        "/Oppstart/Onboarding for nye utviklere på kai",
        "/Oppstart/Onboarding-for-nye-utviklere-på-kai",
        "/Oppstart/Onboarding-for-nye-utviklere-p%C3%A5-kai.md",
        "./Onboarding-for-nye-utviklere-p%C3%A5-kai.md#start",
    ]
    others = {f"Oppstart/Link {n}": page(f"[start]({link})") for n, link in enumerate(spellings)}
    store = read(serve(project=wiki(**{path: page("Hei"), **others})), "wikis")
    target = by_title(store)["Onboarding for nye utviklere på kai"]
    for n in range(len(spellings)):
        assert links_of(store, f"Link {n}") == {target.uri}, spellings[n]
    assert "%25" not in target.url
    assert " " not in target.url


def test_a_link_to_a_page_that_comes_later_is_made_when_it_comes_and_unmade_when_it_goes(serve: Serve) -> None:
    server = serve(project=wiki(Start=page("see [plan](/Plan) and [other](/Other)"), Other=page("x")))
    connector, store = connect(server), Store()
    store.sync(connector, ["wikis"])
    assert len(links_of(store, "Start")) == 1
    add.add_page(server.state, "Docs", "Plan", "ann", "The plan.")
    store.sync(connector, ["wikis"])
    assert len(links_of(store, "Start")) == 2
    assert store.items == read(server, "wikis").items
    happen(server, delete={"item": "wiki:Docs/Other"})
    store.sync(connector, ["wikis"])
    assert links_of(store, "Start") == {by_title(store)["Plan"].uri}
    assert store.items == read(server, "wikis").items
    connector.close()


def test_a_page_that_is_included_is_linked_to_in_every_way_of_including_it(serve: Serve) -> None:
    ways = {
        "Marks": "Before\n\n:::include /Legal%20notice.md:::\n\nAfter",
        "Block": "Before\n\n::: include ./Legal-notice\n:::\n\nAfter",
        "Left open": "Before\n\n::: include ./Legal-notice\n\nAfter",
        "Embedded": "Before\n\n![[Legal notice]]\n\nAfter",
        "Named": "Before\n\n[!INCLUDE [the notice](/Legal-notice.md)]\n\nAfter",
    }
    fenced = page("Write:\n\n```\n:::include /Legal%20notice.md:::\n```\n")
    pages = {"Legal notice": page("No smoking."), "Fenced": fenced, **{name: page(x) for name, x in ways.items()}}
    store = read(serve(project=wiki(**pages)), "wikis")
    notice = by_title(store)["Legal notice"].uri
    for name in ways:
        assert links_of(store, name) == {notice}, name
        text = by_title(store)[name].parts[0].text
        # Where the other page's words would stand, its name does.
        assert re.search(r"Before\n.*[Ll]egal.*\nAfter$", text, re.DOTALL), name
        assert ":::" not in text
    assert links_of(store, "Fenced") == set()


def test_pages_stand_in_their_order_below_their_parents(serve: Serve) -> None:
    server = serve(project=wiki(**{"A": page(), "B": page(), "B/X": page(), "B/Y": page()}))
    connector, store = connect(server), Store()
    store.sync(connector, ["wikis"])
    told = {t: (i.attributes.get("parent"), i.attributes["order"]) for t, i in by_title(store).items()}
    assert told == {"A": (None, "0"), "B": (None, "1"), "X": ("/B", "0"), "Y": ("/B", "1")}
    add.add_page(server.state, "Docs", "A first one", "ann", "words")
    happen(server, delete={"item": "wiki:Docs/B/X"})
    store.sync(connector, ["wikis"])
    assert {t: i.attributes["order"] for t, i in by_title(store).items()} == {
        "A": "0",
        "A first one": "1",
        "B": "2",
        "Y": "0",
    }
    assert store.items == read(server, "wikis").items
    connector.close()


def test_an_attachment_s_name_finds_the_page_that_shows_it(serve: Serve) -> None:
    store = read(serve(project=wiki(Berths=page("![plan](/.attachments/berth%20plan.png)"))), "wikis")
    (found,) = store.items.values()
    assert "berth plan.png" in found.aliases
    assert found.attributes["attachments"] == "berth plan.png"


def test_a_page_s_owner_who_changes_without_a_commit_is_read_by_the_next_run(serve: Serve) -> None:
    server = serve(project=wiki(Berths=page("words", owner="ann"), Cranes=page("words")))
    connector, store = connect(server), Store()
    store.sync(connector, ["wikis"])
    edit = {"item": "wiki:Docs/Berths", "by": "ann", "fields": {"owner": "ben"}}
    happen(server, edit=edit)
    before = store.upserts
    store.sync(connector, ["wikis"])
    owner = by_title(store)["Berths"].owner
    assert owner.name == "Ben Baker"
    assert store.upserts == before + 1
    connector.close()


def test_contents_macros_are_no_text_and_mermaid_stays_whole(serve: Serve) -> None:
    text = "[[_TOC_]]\n\n# Flow\n\n::: mermaid\ngraph TD; A-->B\n:::\n\n[[_TOSP_]]\n"
    (found,) = read(serve(project=wiki(Flow=page(text))), "wikis").items.values()
    assert "_TOC_" not in found.parts[0].text
    assert "_TOSP_" not in found.parts[0].text
    assert "```mermaid" in found.parts[0].text
    assert "graph TD; A-->B" in found.parts[0].text


def test_a_run_that_finds_nothing_new_asks_three_things_of_each_wiki(serve: Serve) -> None:
    server = serve(project=wiki(**{f"Page {n}": page() for n in range(5)}))
    connector, store = connect(server), Store()
    store.sync(connector, ["wikis"])
    before = connector.traffic
    assert not [c for b in reader_of(connector, "wikis").read(store.checkpoints["wikis"]) for c in b.changes]
    asked = connector.traffic.since(before).requests
    wiki_calls = {area: n for area, n in asked.items() if area.startswith("wiki/") or area.endswith("/refs")}
    assert set(wiki_calls) == {
        "git/repositories/refs",
        "wiki/wikis",
        "wiki/wikis/pages",
        "wiki/wikis/pagesbatch",
    }
    assert "git/repositories/items" not in asked
    connector.close()


def test_a_change_during_a_pass_that_was_cut_short_is_not_taken_for_done(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ingestion.azure_devops import wikis

    monkeypatch.setattr(wikis, "BATCH", 1)
    server = serve(project=wiki(**{f"Page {n}": page() for n in range(4)}), labels=["Public", "Secret"])
    connector, store = connect(server), Store()
    reader = reader_of(connector, "wikis")
    for batch in reader.read(None):
        store.take(reader, batch)
        done = [c.item.title for c in batch.changes if isinstance(c, ItemUpserted)]
        break
    # What has been read already gets a label, which makes no commit.
    happen(server, label={"on": f"wiki:Docs/{done[0]}", "label": "Secret"})
    store.sync(connector, ["wikis"])
    assert by_title(store)[done[0]].label == "Secret"
    assert store.items == read(server, "wikis").items
    connector.close()


# --- code wikis


def code_wiki(*commits: dict[str, Any]) -> dict[str, Any]:
    pages = {"Guide": page("The guide.")}
    return {
        "repos": {"app": {"commits": list(commits) or [commit("one", a_py="x = 1\n")]}},
        "wikis": {"Manual": {"kind": "code", "repo": "repo:app", "path": "/docs", "pages": pages}},
    }


def test_a_code_wiki_whose_repo_is_switched_off_is_withheld_and_comes_back(serve: Serve) -> None:
    server: SandboxServer = serve(project=code_wiki())
    connector, store = connect(server), Store()
    store.sync(connector, ["wikis"])
    before = dict(store.items)
    assert [i.title for i in before.values()] == ["Guide"]
    add.set_disabled(server.state, "app", True)
    reader = reader_of(connector, "wikis")
    list(reader.read(store.checkpoints["wikis"]))
    told = [x for x in reader.present() or () if isinstance(x, Unlisted)]
    assert [x.withhold for x in told] == [True]
    assert all(uri.startswith(told[0].prefix) for uri in before)
    add.set_disabled(server.state, "app", False)
    store.sync(connector, ["wikis"])
    assert store.items == before
    connector.close()


def test_a_code_wiki_s_page_is_as_readable_as_its_repo_and_is_no_file_of_it(serve: Serve) -> None:
    store = read(serve(project=code_wiki()))
    pages = [i for i in store.items.values() if i.kind == "wiki_page"]
    files = [i for i in store.items.values() if i.kind == "file"]
    assert {i.scope for i in pages} == {i.scope for i in files}
    assert {i.attributes["path"].strip("/") for i in files} == {"a.py"}


def test_people_whom_a_page_mentions_are_looked_up_together(serve: Serve) -> None:
    server = serve(project=wiki(Plan=page("words")))
    # A mention names an identity by its key in the service, which is none of the directory's ids.
    keys = [server.state.ids.storage_key("person", person) for person in ("ann", "ben", "gil")]
    mentions = " and ".join(f"@<{key}>" for key in keys)
    happen(server, edit={"item": "wiki:Docs/Plan", "by": "ann", "content": f"Ask {mentions}."})
    connector, store = connect(server), Store()
    store.sync(connector, ["wikis"])
    (found,) = store.items.values()
    people = {c.person.principal for c in found.contributions if c.role is Role.MENTIONED}
    assert people == {f"user:{server.state.tenant_id}/{server.state.oid(p)}" for p in ("ann", "ben", "gil")}
    before = connector.traffic
    store.drain(reader_of(connector, "wikis"))
    assert "identities" not in connector.traffic.since(before).requests
    assert before.requests["identities"] == 1
    connector.close()
