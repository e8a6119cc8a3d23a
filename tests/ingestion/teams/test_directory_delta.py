"""The directory by delta: whatever changes, what is kept in memory is what the lists say."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from random import Random
from typing import Any

import pytest

from core import principals
from core.clock import FixedClock
from core.errors import SourceError
from core.principals import Principal
from fixtures.sandbox.refs import Ref
from ingestion.connector import AccessSnapshot, PersonKind
from ingestion.teams.connector import TeamsConnector
from tests.ingestion.teams.small import event, nord, said, small_world
from tests.ingestion.teams.stores import START
from tests.ingestion.teams.support import TENANT, Data, Kept, Live, live
from tests.support.chance import Chance, Nothing

PEOPLE = ("iris", "teo", "mina", "lena?", "bot!", "pim", "joost", "anna")
GROUPS: dict[str, Data] = {
    "crew": {"name": "Crew", "members": ["iris", "teo", "pim", "joost", "anna", "mina", "lena", "bot"]},
    "tug": {"name": "Tug", "members": ["iris", "group:crew"]},
    "deck": {"name": "Deck", "members": ["group:tug", "group:ado"]},
    "ado": {"name": "Contributors", "kind": "azure_devops", "members": ["mina", "group:quay"]},
    "quay": {"name": "Quay", "members": []},
}
EVENTS = [
    event("off", disable_person={"who": "teo"}),
    event("left", "2m", remove_member={"group": "crew", "who": "pim"}),
    event("joined", "3m", add_member={"group": "quay", "who": "pim"}),
    event("gone", "4m", delete={"item": "person:iris"}),
    event("back", "5m", restore={"item": "person:iris"}),
]


class Directory:
    """A sandbox with a directory, and a connector that lives on while it changes."""

    def __init__(self, running: Live) -> None:
        self.running, self.state = running, running.server.state
        self.begin()

    def begin(self) -> None:
        """The world as it was at first, and a process that knows nothing of it."""
        self.state.reset()
        self.running.server.faults.clear()
        self.running.transport.rewrite = lambda path, data: None
        self.clock = FixedClock(START)
        self.connector = TeamsConnector(self.running.settings, client=self.running.client, clock=self.clock)

    def read(self) -> tuple[AccessSnapshot, list[str]]:
        """A poll, and what was asked for it."""
        seen = self.running.server.faults.seen
        seen.clear()
        snapshot = self.connector.memberships()
        assert snapshot.memberships_only
        assert not snapshot.scopes
        return snapshot, [path.removeprefix("GET /graph/v1.0") for path, n in seen.items() for _ in range(n)]

    def members(self, group: str) -> set[Principal]:
        """Who is in a group by the next poll."""
        wanted = principals.group(TENANT, self.state.ids.group(group))
        (found,) = [c.members for c in self.read()[0].containers if c.principal == wanted]
        return set(found or ())


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Directory]:
    teams = nord(said("m1"))
    teams["Nord"]["members"] = ["teo", "lena"]
    world = small_world(teams, people=PEOPLE, groups=GROUPS, events=EVENTS, labels=["a"])
    world.people["teo"].manager = world.people["pim"].manager = "iris"
    with live(world, tmp_path_factory.mktemp("directory"), page=3) as running:
        yield Directory(running)


@pytest.fixture
def directory(sandbox: Directory) -> Directory:
    sandbox.begin()
    return sandbox


def as_listed(directory: Directory) -> tuple[dict[Principal, Any], dict[Principal, Any]]:
    """The directory by its plain lists, read one by one."""
    client = directory.running.client
    people: dict[Principal, Any] = {}
    for row in client.rows("/users?$select=id,displayName,accountEnabled,userType&$expand=manager($select=id)"):
        kind = PersonKind.GUEST if row["userType"] == "Guest" else PersonKind.MEMBER
        manager = principals.user(TENANT, row["manager"]["id"]) if "manager" in row else None
        people[principals.user(TENANT, row["id"])] = (row["displayName"], kind, row["accountEnabled"], manager)
    for row in client.rows("/servicePrincipals"):
        account = (row["displayName"], PersonKind.SERVICE, row["accountEnabled"], None)
        people[principals.user(TENANT, row["id"])] = account
    groups: dict[Principal, Any] = {}
    for row in client.rows("/groups"):
        members = {
            (principals.group if m["@odata.type"].endswith("group") else principals.user)(TENANT, m["id"])
            for m in client.rows(f"/groups/{row['id']}/members?$select=id")
        }
        groups[principals.group(TENANT, row["id"])] = (row["displayName"], members)
    enabled = {p for p, (_, kind, on, _) in people.items() if on and kind is not PersonKind.SERVICE}
    members = {p for p in enabled if people[p][1] is PersonKind.MEMBER}
    groups[principals.everyone(TENANT)] = ("Everyone in the company", members)
    groups[principals.anyone(TENANT)] = ("Anyone who signs in", enabled)
    return people, groups


def as_kept(snapshot: AccessSnapshot) -> tuple[dict[Principal, Any], dict[Principal, Any]]:
    """The same of a snapshot."""
    people = {p.principal: (p.name, p.kind, p.enabled, p.manager) for p in snapshot.people}
    groups = {c.principal: (c.name, set(c.members or ())) for c in snapshot.containers}
    assert len(people) == len(snapshot.people)
    assert len(groups) == len(snapshot.containers)
    assert not any(c.half_known for c in snapshot.containers)
    return people, groups


def change(chance: Chance) -> str:
    """Something that happens to the directory."""
    state, random = chance.state, chance.random
    match random.choice(("member", "member", "member", "team", "delete", "restore", "rename", "disable", "expire")):
        case "member":
            kind = random.choice(("add_member", "remove_member"))
            group = chance.pick(state.world.groups)
            who = chance.pick([*state.world.people, *(f"group:{g}" for g in state.world.groups if g != group)])
            return chance.happen(**{kind: {"group": group, "who": who}})
        case "team":
            kind = random.choice(("add_member", "remove_member"))
            return chance.happen(**{kind: {"team": "Nord", "who": chance.person()}})
        case "delete":
            return chance.happen(delete={"item": chance.pick(_things(chance, deleted=False))})
        case "restore":
            return chance.happen(restore={"item": chance.pick(_things(chance, deleted=True))})
        case "rename":
            return chance.happen(rename={"what": chance.pick(_things(chance, deleted=False)), "to": chance.name()})
        case "disable":
            return chance.happen(disable_person={"who": chance.person()})
        case _:
            return "expire"


def _things(chance: Chance, *, deleted: bool) -> list[str]:
    world = chance.state.world
    named = {"person": world.people, "group": {k: g for k, g in world.groups.items() if g.kind == "entra"}}
    return [f"{k}:{x}" for k, keys in named.items() for x in keys if chance.state.is_deleted(Ref(k, (x,))) == deleted]


@pytest.mark.parametrize("seed", range(12))
def test_what_came_by_delta_is_what_the_lists_say(directory: Directory, seed: int) -> None:
    chance = Chance(directory.state, Random(seed))
    directory.read()
    done: list[str] = []
    for _ in range(chance.random.choice((2, 4))):
        for _ in range(chance.random.choice((1, 2, 5))):
            try:
                with directory.state.lock:
                    done.append(change(chance))
            except Nothing:
                continue
            if done[-1] == "expire":
                directory.running.server.faults.expire_delta_links()
        snapshot, _ = directory.read()
        assert as_kept(snapshot) == as_listed(directory), done


def test_a_poll_without_changes_is_three_requests_and_one_with_a_few_little_more(directory: Directory) -> None:
    directory.read()
    assert directory.read()[1] == ["/users/delta", "/servicePrincipals/delta", "/groups/delta"]
    directory.running.server.apply("off")
    asked = directory.read()[1]
    assert len(asked) == 4
    assert asked.count(f"/users/{directory.state.oid('teo')}/manager") == 1


def test_somebody_deleted_is_gone_from_every_group_at_once_and_is_in_them_when_restored(directory: Directory) -> None:
    iris = directory.running.principal("iris")
    assert iris in directory.members("crew")
    directory.running.server.apply("gone")
    snapshot, asked = directory.read()
    assert not any(iris in (c.members or ()) for c in snapshot.containers)
    assert iris not in {p.principal for p in snapshot.people}
    assert not any(p.manager == iris for p in snapshot.people)
    assert "/users" not in asked
    directory.running.server.apply("back")
    assert iris in directory.members("crew")


def test_everything_is_read_whole_once_in_a_while(directory: Directory) -> None:
    directory.read()
    directory.clock.advance(timedelta(minutes=59))
    assert "/users" not in directory.read()[1]
    directory.clock.advance(timedelta(minutes=1))
    assert "/users" in directory.read()[1]
    assert "/users" not in directory.read()[1]


def test_a_round_that_breaks_off_changes_nothing_and_is_made_good(directory: Directory) -> None:
    """C019."""
    before = as_kept(directory.read()[0])
    directory.running.server.apply("joined")
    for refused in ("users", "groups"):
        directory.running.server.faults.fail(f".*/{refused}/delta", status=503, times=None)
        with pytest.raises(SourceError):
            directory.read()
        directory.running.server.faults.clear()
    after = as_kept(directory.read()[0])
    assert after != before
    assert after == as_listed(directory)


def test_a_manager_who_cannot_be_asked_for_holds_up_no_revocation(directory: Directory) -> None:
    teo, iris = directory.running.principal("teo"), directory.running.principal("iris")
    directory.read()
    directory.running.server.apply("off")
    directory.running.server.faults.fail(".*/manager", status=500, times=None)
    person = next(p for p in directory.read()[0].people if p.principal == teo)
    assert (person.enabled, person.manager) == (False, iris)


@pytest.mark.parametrize("order", [1, -1])
def test_two_contrary_rows_in_one_round_are_settled_by_a_whole_one(directory: Directory, order: int) -> None:
    """Rows of a round have no order that is promised."""
    pim = directory.running.principal("pim")
    directory.read()
    directory.running.server.apply("left")
    there: Data = {"@odata.type": "#microsoft.graph.user", "id": directory.state.oid("pim")}

    def contrary(path: str, data: Data) -> Data | None:
        if path != "/groups/delta" or not data["value"] or "@removed" not in str(data):
            return None
        again = [{**row, "members@delta": [there]} for row in data["value"] if "members@delta" in row]
        return {**data, "value": [*data["value"], *again][::order]}

    directory.running.transport.rewrite = contrary
    assert pim not in directory.members("crew")


@pytest.mark.parametrize("order", [1, -1])
def test_contrary_rows_in_a_first_round_are_settled_by_the_lists(directory: Directory, order: int) -> None:
    pim, crew = directory.running.principal("pim"), directory.state.ids.group("crew")
    directory.running.server.apply("left")
    gone: Data = {"id": directory.state.oid("pim"), "@removed": {"reason": "deleted"}}
    there: Data = {"@odata.type": "#microsoft.graph.user", "id": directory.state.oid("pim")}

    def contrary(path: str, data: Data) -> Data | None:
        if path != "/groups/delta" or not any(row["id"] == crew for row in data["value"]):
            return None
        rows = [{"id": crew, "displayName": "Crew", "members@delta": [member]} for member in (gone, there)]
        return {**data, "value": [*data["value"], *rows[::order]]}

    directory.running.transport.rewrite = contrary
    assert pim not in directory.members("crew")


def test_content_takes_names_from_the_directory_where_messages_have_none_and_asks_for_them_only_then(
    directory: Directory,
) -> None:
    (reader,) = directory.connector.readers()
    faults = directory.running.server.faults

    def read() -> Kept:
        kept = Kept()
        kept.read(reader)
        return kept

    def nameless(path: str, data: Data) -> Data:
        for row in data["value"] if path.endswith("/messages") else ():
            if row["from"]:
                row["from"]["user"]["displayName"] = None
        return data

    faults.seen.clear()
    assert read().items
    assert not any("/users" in path for path in faults.seen)
    directory.running.transport.rewrite = nameless
    faults.fail(".*/users", status=503, times=None)
    (failure,) = read().failures.values()
    assert failure.reason.endswith("HTTP 503 after 5 tries")
    faults.clear()
    assert [item.author.name for item in read().items.values() if item.author] == ["Iris Okonjo"]
    faults.fail(".*/users", status=503, times=None)
    directory.clock.advance(timedelta(minutes=6))
    assert [item.author.name for item in read().items.values() if item.author] == ["Iris Okonjo"]
