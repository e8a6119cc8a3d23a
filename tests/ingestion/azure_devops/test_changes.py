"""After any change, and after a kill anywhere, what was read step by step equals what a fresh read gives."""

from __future__ import annotations

import json
from types import ModuleType

import pytest

from core.errors import SourceGoneError
from fixtures.sandbox.refs import Ref
from fixtures.sandbox.server import SandboxServer
from fixtures.sandbox.state_events import apply_event
from fixtures.sandbox.world_models import Event
from ingestion.azure_devops import code, pull_requests, wikis, work_items
from ingestion.connector import ItemDeleted, ItemUpserted
from tests.ingestion.azure_devops.support import WORLD_NAMES, WORLDS, Store, connect, reader_of

READERS: dict[str, ModuleType] = {
    "work_items": work_items,
    "wikis": wikis,
    "code": code,
    "pull_requests": pull_requests,
}


def fresh(server: SandboxServer) -> Store:
    """What a first run reads now."""
    store, connector = Store(), connect(server)
    store.sync(connector)
    connector.close()
    return store


@pytest.mark.parametrize("name", list(READERS))
def test_a_kill_at_any_batch_loses_and_doubles_nothing(
    name: str, server: SandboxServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(READERS[name], "BATCH", 6)
    connector = connect(server)
    whole = Store()
    batches = list(reader_of(connector, name).read(None))
    for batch in batches:
        whole.take(reader_of(connector, name), batch)
    assert len(batches) > 2
    for cut in sorted({1, 2, len(batches) // 2, len(batches) // 2 + 1, len(batches) - 2, len(batches) - 1}):
        store, reader = Store(), reader_of(connector, name)
        for number, batch in enumerate(reader.read(None), start=1):
            store.take(reader, batch)
            if number == cut:
                break
        # A checkpoint goes through JSON on its way to the record and back.
        kept = json.loads(json.dumps(store.checkpoints[name]))
        for batch in reader_of(connector, name).read(kept):
            store.take(reader, batch)
        assert store.digests() == whole.digests(), cut
        if name != "pull_requests":
            # Open pull requests are read in every run; everything else once.
            assert store.upserts <= whole.upserts, cut
    connector.close()


@pytest.mark.parametrize("name", ["work_items", "wikis", "code"])
def test_a_second_run_reads_nothing_again(name: str, server: SandboxServer) -> None:
    connector = connect(server)
    store, reader = Store(), reader_of(connector, name)
    for batch in reader.read(None):
        store.take(reader, batch)
    again = [c for b in reader.read(store.checkpoints[name]) for c in b.changes]
    assert [c for c in again if isinstance(c, ItemUpserted)] == []
    connector.close()


def test_after_a_forced_push_everything_is_read_and_the_sync_is_told_to_reconcile(server: SandboxServer) -> None:
    connector, store = connect(server), Store()
    store.sync(connector, ["code"])
    kept = json.loads(json.dumps(store.checkpoints["code"]))
    thrown_away = next(repo for repo in kept["repos"].values() if repo["head"])
    thrown_away["head"], thrown_away["commits"][0] = "0" * 40, "0" * 40
    again = Store(checkpoints={"code": kept})
    with pytest.raises(SourceGoneError):
        again.drain(reader_of(connector, "code"))
    assert again.items
    assert all(again.items[uri].digest == store.items[uri].digest for uri in again.items)
    connector.close()


def test_an_item_that_failed_can_be_fetched_by_its_address(server: SandboxServer) -> None:
    connector = connect(server)
    store = Store()
    store.sync(connector)
    for reader in connector.readers():
        mine = sorted(u for u, i in store.items.items() if i.source is reader.source)[:7]
        fetched = {
            c.item.uri: c.item
            for c in reader.fetch([*mine, "ctx://teams/x/channels/y/messages/z"])
            if isinstance(c, ItemUpserted)
        }
        assert sorted(fetched) == mine
        assert all(fetched[u].digest == store.items[u].digest for u in mine)
    connector.close()


def happen(server: SandboxServer, **change: object) -> None:
    """Make one change, as an event of the world would."""
    state = server.state
    apply_event(state, Event.model_validate({"id": f"made-{len(state.journal)}", "after": "9d", **change}))


def test_a_deleted_work_item_goes_and_comes_back_when_it_is_restored(contoso: SandboxServer) -> None:
    connector, store = connect(contoso), Store()
    store.sync(connector, ["work_items"])
    number = contoso.state.work_item_numbers()[0]
    uri = f"ctx://ado/{contoso.state.organization}/work-items/{number}"
    title = store.items[uri].title
    happen(contoso, delete={"item": f"work_item:{number}"})
    changes = [c for b in reader_of(connector, "work_items").read(store.checkpoints["work_items"]) for c in b.changes]
    assert any(isinstance(c, ItemDeleted) and c.uri == uri for c in changes)
    store.sync(connector, ["work_items"])
    assert uri not in store.items
    happen(contoso, restore={"item": f"work_item:{number}"})
    store.sync(connector, ["work_items"])
    assert store.items[uri].title == title
    connector.close()


def changes_of_names_and_places(server: SandboxServer) -> list[dict[str, object]]:
    """Changes of which the source sends no revision, or that touch many items at once."""
    state = server.state
    project = next(p for p, m in state.lookup.projects.items() if m.work_items and m.repos and m.wikis)
    others = [p for p in state.lookup.projects if p != project]
    items = [
        n
        for n, (home, _) in state.lookup.work_items.items()
        if home == project and not state.is_deleted(Ref("work_item", (str(n),)))
    ]
    area = next(a for a in state.areas(project) if a != "/")
    wiki = next(w for w, (home, m) in state.lookup.wikis.items() if home == project and m.kind == "project")
    pages = [p.key for p in state.pages(wiki)]
    repo = next(r for r, (home, m) in state.lookup.repos.items() if home == project and not m.disabled)
    files = sorted(state.files(repo))
    made: list[dict[str, object]] = [
        {"rename": {"what": f"project:{project}", "to": "Renamed project"}},
        {"rename": {"what": f"area:{project}{area}", "to": "Renamed area"}},
        {"rename": {"what": f"repo:{repo}", "to": "renamed-repo"}},
        {"rename": {"what": f"wiki:{wiki}", "to": "Renamed.wiki"}},
        {"rename": {"what": f"wiki:{wiki}/{pages[0]}", "to": "Renamed page - with a hyphen"}},
        {"move": {"item": f"wiki:{wiki}/{pages[-1]}", "to": f"wiki:{wiki}/Attic/Moved page"}},
        {"move": {"item": f"file:{repo}/{files[0]}", "to": f"file:{repo}/moved/{files[0]}"}},
        {"move": {"item": f"work_item:{items[0]}", "to": f"area:{project}{area}"}},
        {"move": {"item": f"work_item:{items[1]}", "to": f"project:{others[0]}"}},
        {"label": {"on": f"project:{project}", "label": state.world.labels[-1]}},
        {"label": {"on": f"repo:{repo}", "label": state.world.labels[0]}},
        {"label": {"on": f"wiki:{wiki}/{pages[1]}", "label": state.world.labels[-1]}},
        {"label": {"on": f"work_item:{items[2]}", "label": state.world.labels[-1]}},
        {"delete": {"item": f"file:{repo}/{files[1]}"}},
        {"delete": {"item": f"wiki:{wiki}/{pages[2]}"}},
        {"restore": {"item": f"wiki:{wiki}/{pages[2]}"}},
        {"restore": {"item": f"file:{repo}/{files[1]}"}},
        {
            "edit": {
                "item": f"work_item:{items[3]}",
                "by": next(iter(state.world.people)),
                "fields": {"System.Title": "New title"},
            }
        },
    ]
    return made


@pytest.mark.parametrize("world", WORLD_NAMES)
def test_renames_moves_and_labels_reach_every_item_that_they_touch(
    world: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with SandboxServer(WORLDS / world, tmp_path_factory.mktemp("sandbox"), remember=False) as server:
        connector, store = connect(server), Store()
        store.sync(connector)
        for number, change in enumerate(changes_of_names_and_places(server), start=1):
            happen(server, **change)
            if number % 6 == 0:
                store.sync(connector)
                assert store.digests() == fresh(server).digests(), change
        connector.close()


def test_a_renamed_page_keeps_its_address_and_is_still_found_by_its_old_path(contoso: SandboxServer) -> None:
    connector, store = connect(contoso), Store()
    state = contoso.state
    wiki = next(w for w, (_, m) in state.lookup.wikis.items() if m.kind == "project")
    page = state.pages(wiki)[0]
    store.sync(connector, ["wikis"])
    uri = next(u for u in store.items if u.endswith(f"/pages/{page.id}"))
    count = len(store.items)
    happen(contoso, rename={"what": f"wiki:{wiki}/{page.key}", "to": "Quite another name"})
    store.sync(connector, ["wikis"])
    assert len(store.items) == count
    assert store.items[uri].title == "Quite another name"
    assert any(a.strip("/").casefold() == page.path.casefold() for a in store.items[uri].aliases)
    connector.close()
