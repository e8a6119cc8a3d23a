"""Cases that went wrong elsewhere, each through the sandbox: who may read what, and who belongs to what."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.wiring import Index, build_connectors, build_synchronizer
from context_engine.worlds import world_settings
from core import principals
from core.embedding.port import Embedder
from core.index.edge import EdgeIndex
from core.principals import Principal
from fixtures.sandbox.graph.http import GraphSettings
from fixtures.sandbox.server import SandboxServer
from fixtures.sandbox.state_events import apply_event
from fixtures.sandbox.world import build_world
from graph.db import Database
from graph.directory import DirectoryStore
from ingestion.azure_devops.connector import AzureDevOpsConnector
from tests.ingestion.azure_devops.support import connect
from tests.sandbox.small import NOW, TENANT, allow, commit, deny, item, page, person, stamp
from tests.support.engines import LiveEngine, live_engine
from tests.support.postgres import PostgresServer

CANARY = "zyxquark-canary"
IRIS_OID = "A0A0A0A0-0000-4000-8000-00000000000A"

PEOPLE: dict[str, Any] = {
    "iris": person("Iris Okonjo", oid=IRIS_OID),
    "teo": person("Teo Lund"),
    "adm": person("Ada Admin"),
    "lena": person("Lena Guest", kind="guest"),
    "stake": person("Stan Stake", access_level="stakeholder"),
    "new": person("Nia New"),
}


def ado(name: str, *members: str, project: str | None = None) -> dict[str, Any]:
    """A group of Azure DevOps itself."""
    return {"name": name, "kind": "azure_devops", "members": list(members)} | ({"project": project} if project else {})


GROUPS: dict[str, Any] = {
    "audit": {"name": "Audit", "members": ["iris"]},
    "core": {"name": "Core", "members": ["teo"]},
    "contrib": ado("Contributors", "teo", project="Fjordline"),
    "payroll": ado("Payroll", "iris", project="Fjordline"),
    "release": ado("Release", "iris", "teo"),
    "blocked": ado("Blocked", "iris"),
    "pca": ado("Project Collection Administrators", "adm"),
    "no-code": ado("No code", "adm"),
    "valid": ado("Project Valid Users", "iris", project="Valid"),
    "contrib-one": ado("Contributors", "iris", project="Names"),
    "contrib-two": ado("Contributors", "teo", project="Names two"),
    "entra-only": {"name": "Crane partners", "members": ["new"]},
    "through": ado("Readers", "group:entra-only", project="Entra"),
}
EVENTS: list[dict[str, Any]] = [
    {"id": "basic", "after": "1m", "set_access_level": {"who": "stake", "access_level": "basic"}},
    {"id": "renamed", "after": "2m", "rename": {"what": "group:contrib-one", "to": "Harbour Contributors"}},
]


def repo(name: str, **more: Any) -> dict[str, Any]:
    """A repo with one file and one pull request, cut from what lies above it."""
    pull = {"id": 1, "title": "Lift", "created": stamp("adm"), "source": "x"}
    made = {"commits": [stamp("adm") | commit("k", crane_py="lift()") | {"by": "adm"}], "pull_requests": [pull]}
    return {name: made | {"inherit": False} | more}


def wi(number: int, area: str = "/", **more: Any) -> dict[str, Any]:
    """A work item by somebody of this world."""
    return item(number, area, **more) | {"created": stamp("adm")}


def cut(*names: str) -> dict[str, Any]:
    """A root area that lets these in, and takes nothing from the project."""
    return {"/": {"inherit": False, "acl": allow(*names)}}


OPEN = allow("group:everyone", "lena")
PROJECTS: dict[str, Any] = {
    "Audit": {
        "acl": OPEN,
        "repos": repo("repo-a", acl=allow("group:audit")) | repo("repo-b", acl=allow("group:core")),
    },
    "Fjordline": {
        "acl": OPEN,
        "areas": {
            "/": {"acl": allow("group:contrib")},
            "/Payroll": {"inherit": False, "acl": allow("group:payroll")},
            "/Payroll/Bonus": {"acl": []},
        },
        "work_items": [wi(4101, "/Payroll/Bonus", title="Bonus table 2031")],
    },
    "Deny": {"acl": OPEN, "repos": repo("repo-deny", acl=[*deny("group:blocked"), *allow("group:release")])},
    "Admins": {"acl": OPEN, "repos": repo("repo-adm", acl=[*allow("group:pca"), *deny("group:no-code")])},
    "Levels": {
        "acl": OPEN,
        "repos": repo("repo-stake", acl=allow("stake")),
        "areas": {"/": {"acl": allow("stake")}},
        "work_items": [wi(12)],
    },
    "Valid": {"acl": OPEN, "repos": repo("repo-d", acl=allow("group:valid"))},
    "Names": {"acl": OPEN, "areas": cut("group:contrib-one"), "work_items": [wi(18)]},
    "Names two": {"acl": OPEN, "areas": cut("group:contrib-two"), "work_items": [wi(19)]},
    "Entra": {
        "acl": OPEN,
        "repos": repo("repo-direct", acl=allow("group:entra-only")) | repo("repo-nested", acl=allow("group:through")),
    },
    "Harbour": {
        "acl": OPEN,
        "areas": {"/": {"inherit": False, "acl": allow("iris")}, "/Open": {"acl": OPEN}},
        "work_items": [
            wi(9, title="Lamp schedule", description=f"<p>The lamp schedule of the quay, {CANARY}.</p>"),
            wi(10, "/Open", title="Quay paint", description="<p>The quay is painted in spring.</p>"),
        ],
    },
    "Merger Walrus": {
        "acl": allow("iris"),
        "work_items": [wi(11, title="Merger of the two yards (MW)", description="<p>MW means Merger Walrus.</p>")],
        "wikis": {"Walrus wiki": {"pages": {"Who": page("Nobody may know.", owner="iris")}}},
        "repos": repo("walrus-repo") | {},
    },
}
for _wiki in PROJECTS["Merger Walrus"]["wikis"].values():
    for _page in _wiki["pages"].values():
        _page["revisions"][0]["by"] = "iris"
PROJECTS["Merger Walrus"]["repos"]["walrus-repo"]["inherit"] = True


def world(**more: Any) -> dict[str, Any]:
    """The world of these cases."""
    return {
        "format": 1,
        "name": "cases",
        "now": NOW,
        "tenant_id": TENANT,
        "people": PEOPLE,
        "groups": GROUPS,
        "azure_devops": {"organization": "NovaRuud", "projects": PROJECTS},
        "events": EVENTS,
    } | more


@pytest.fixture(scope="module")
def live(postgres: PostgresServer, embedder: Embedder) -> Iterator[LiveEngine]:
    """The world, synced; its two events belong to one test each."""
    with live_engine(build_world(world()), postgres, embedder) as made:
        yield made


def count(live: LiveEngine, who: str, *, repo: str | None = None, number: int | None = None) -> int:
    """How many items of a repo, or whether a work item, the API opens to somebody."""
    assert live.engine.sandbox is not None
    key = f"repos/{live.engine.sandbox.state.git(repo).id}/" if repo else f"work-items/{number}"
    pattern = f"ctx://ado/novaruud/{key}%" if repo else f"ctx://ado/novaruud/{key}"
    with live.engine.database.connection() as connection:
        rows = connection.execute("SELECT uri FROM items WHERE uri LIKE %s", [pattern]).fetchall()
    assert rows
    return sum(live.expand(who, r["uri"]).status_code == 200 for r in rows)


def happens(live: LiveEngine, event_id: str) -> None:
    """One event and nothing else; then permissions alone are read again."""
    assert live.engine.sandbox is not None
    state = live.engine.sandbox.state
    with state.lock:
        apply_event(state, next(e for e in state.world.events if e.id == event_id))
    assert {r.state for r in live.engine.sync_access()} == {"complete"}


def test_a_grant_on_one_repo_is_not_copied_to_its_siblings(live: LiveEngine) -> None:
    """C003"""
    assert count(live, "iris", repo="repo-a") == 3
    assert count(live, "iris", repo="repo-b") == 0
    assert count(live, "teo", repo="repo-a") == 0
    assert count(live, "teo", repo="repo-b") == 3


def test_a_child_of_a_cut_node_takes_the_cut_node_s_readers(live: LiveEngine) -> None:
    """C004"""
    assert count(live, "teo", number=4101) == 0
    assert count(live, "iris", number=4101) == 1


def test_a_deny_in_one_group_beats_an_allow_in_another(live: LiveEngine) -> None:
    """C005"""
    assert count(live, "iris", repo="repo-deny") == 0
    assert count(live, "teo", repo="repo-deny") == 3


def test_the_order_of_entries_and_members_changes_nothing(tmp_path_factory: pytest.TempPathFactory) -> None:
    """C005: twenty shuffles, one rule."""
    chance, rules = Random(5), set()
    entries = [*deny("group:blocked"), *allow("group:release"), *allow("adm"), *deny("lena")]
    for _ in range(20):
        chance.shuffle(entries)
        project = {"acl": OPEN, "repos": repo("repo-deny", acl=list(entries))}
        made = build_world(
            world(azure_devops={"organization": "NovaRuud", "projects": {"Deny": project}}, events=[])
            | {"groups": {k: v for k, v in GROUPS.items() if "project" not in v}}
        )
        with SandboxServer(made, tmp_path_factory.mktemp("sandbox"), remember=False) as server:
            rules.add(rule_of(connect(server), "repo"))
    assert len(rules) == 1


def rule_of(connector: AzureDevOpsConnector, kind: str) -> str:
    """The digest of the one scope of a kind."""
    with closing(connector):
        return next(s.acl.digest for s in connector.access().scopes if s.kind == kind)


def test_an_administrator_who_is_denied_has_no_way_past(live: LiveEngine) -> None:
    """C006"""
    assert count(live, "adm", repo="repo-adm") == 0


def test_valid_users_of_a_project_read_and_guests_outside_of_them_do_not(live: LiveEngine) -> None:
    """C008"""
    assert count(live, "iris", repo="repo-d") == 3
    assert count(live, "lena", repo="repo-d") == 0


def test_no_route_shows_what_one_person_may_read_to_another(live: LiveEngine) -> None:
    """C009: every route of the OpenAPI document is called with what would match."""
    uri = "ctx://ado/novaruud/work-items/9"
    seen = {who: answers(live, who, uri) for who in ("iris", "teo", "lena", "adm")}
    assert len(seen["iris"]) >= 4
    assert any(CANARY in text for text in seen["iris"].values())
    for who in ("teo", "lena", "adm"):
        assert [route for route, text in seen[who].items() if CANARY in text or "Lamp schedule" in text] == []


def answers(live: LiveEngine, who: str, uri: str) -> dict[str, str]:
    """What each route answers to somebody who asks for an item by what it holds, and by its address."""
    document = live.client.get("/openapi.json").json()
    header = {"Authorization": f"Bearer {live.token(who)}"}
    found = {}
    for path, methods in document["paths"].items():
        for method, about in methods.items():
            query = {p["name"]: uri for p in about.get("parameters", []) if p["in"] == "query"}
            filled = path
            for p in about.get("parameters", []):
                filled = filled.replace("{" + p["name"] + "}", uri)
            body = {"question": "what is on the quay in the schedule?", "focus": {"item": uri}, "explain": True}
            answer = live.client.request(
                method, filled, params=query, json=body if "requestBody" in about else None, headers=header
            )
            found[f"{method} {path}"] = answer.text
    return found


def test_a_container_s_name_is_known_to_its_readers_alone(live: LiveEngine) -> None:
    """C011"""
    questions = ("merger of the yards", "who works on the merger?", "what is MW?", "which wikis are there?")
    told = {who: [json.dumps(live.ask(who, q)).lower() for q in questions] for who in ("iris", "teo")}
    assert any("walrus" in text for text in told["iris"])
    assert not any("walrus" in text for text in told["teo"])
    with live.engine.database.connection() as connection:
        rows = connection.execute("SELECT uri FROM items WHERE container ILIKE '%walrus%'").fetchall()
    assert rows
    for row in rows:
        there, nowhere = live.expand("teo", row["uri"]), live.expand("teo", "ctx://ado/novaruud/work-items/404404")
        assert there.status_code == nowhere.status_code == 404
        assert there.json() == nowhere.json()


def test_a_stakeholder_reads_work_items_and_no_code_until_they_hold_basic(live: LiveEngine) -> None:
    """C012"""
    assert count(live, "stake", repo="repo-stake") == 0
    assert count(live, "stake", number=12) == 1
    happens(live, "basic")
    assert count(live, "stake", repo="repo-stake") == 3


def test_groups_of_one_name_are_two_groups_and_a_new_name_changes_nothing(live: LiveEngine) -> None:
    """C018"""
    assert [count(live, who, number=18) for who in ("iris", "teo", "adm")] == [1, 0, 0]
    assert [count(live, who, number=19) for who in ("iris", "teo", "adm")] == [0, 1, 0]
    happens(live, "renamed")
    assert [count(live, who, number=18) for who in ("iris", "teo", "adm")] == [1, 0, 0]
    names = DirectoryStore(live.engine.database).containers_of(principals.user(TENANT, IRIS_OID))
    assert "[Names]\\Harbour Contributors" in names.values()


def test_a_directory_group_in_a_rule_is_one_principal_and_lets_in_whom_the_directory_has_in_it(
    live: LiveEngine,
) -> None:
    """C024: on the node itself, and inside a group of Azure DevOps."""
    assert count(live, "new", repo="repo-direct") == 3
    assert count(live, "new", repo="repo-nested") == 3
    assert count(live, "teo", repo="repo-direct") == 0
    with live.engine.database.connection() as connection:
        said = connection.execute(
            "SELECT DISTINCT unnest(allowed || denied) AS who FROM scopes "
            "UNION SELECT member FROM memberships UNION SELECT container FROM memberships"
        ).fetchall()
    assert [r["who"] for r in said if "aadgp." in r["who"]] == []


def test_an_object_id_in_capitals_is_the_same_person(live: LiveEngine) -> None:
    """C029: the directory spells Iris's id in capitals; her token and every rule lead to the same principal."""
    assert IRIS_OID.lower() != IRIS_OID
    assert count(live, "iris", repo="repo-a") == 3
    with live.engine.database.connection() as connection:
        rows = connection.execute("SELECT principal FROM people WHERE name = 'Iris Okonjo'").fetchall()
    assert {r["principal"] for r in rows} == {f"user:{TENANT}/{IRIS_OID.lower()}"}


@given(kind=st.sampled_from(sorted(principals.KINDS)), rest=st.text(min_size=1, max_size=40), spaces=st.booleans())
def test_a_principal_has_one_spelling(kind: str, rest: str, spaces: bool) -> None:
    """C029: what was normalised once stays as it is."""
    try:
        once = principals.parse(f"  {kind.upper()}: {rest} " if spaces else f"{kind}:{rest}")
    except ValueError:
        return
    assert principals.parse(once) == once
    assert once.startswith(f"{kind}:")


# --- membership


def nested() -> dict[str, Any]:
    """Iris in 250 groups directly, and in three that lie in each other, the last in the first again."""
    chain = {
        "l1": {"name": "L1", "members": ["iris", "group:l3"]},
        "l2": {"name": "L2", "members": ["group:l1"]},
        "l3": {"name": "L3", "members": ["group:l2"]},
    }
    direct = {f"d{n}": {"name": f"D{n}", "members": ["iris"]} for n in range(250)}
    project = {"acl": OPEN, "areas": cut("group:l3"), "work_items": [wi(15)]}
    devops = {"organization": "NovaRuud", "projects": {"Nest": project}}
    return world(groups=chain | direct, azure_devops=devops, events=[])


def test_nested_groups_and_those_on_later_pages_count_and_cycles_end(
    ingest_db: Database, embedder: Embedder, tmp_path: Path
) -> None:
    """C015"""
    with SandboxServer(build_world(nested()), tmp_path, remember=False, graph=GraphSettings(page=100)) as server:
        sync_access(server, ingest_db, embedder, tmp_path)
        who = principals.user(TENANT, server.state.oid("iris"))
    counted = DirectoryStore(ingest_db, required=("teams", "azure_devops")).closure(who)
    everybody = names(ingest_db, "Everyone")
    groups = {x for x in counted if principals.kind_of(x) == "group"}
    # The world's own group of all its members comes on top.
    assert groups - everybody == {x for letter in "DL" for x in names(ingest_db, f"{letter}%")} - everybody
    assert len(groups - everybody) == 253
    assert {principals.kind_of(x) for x in counted} == {"group", "user", "everyone", "anyone", "licence"}
    with ingest_db.connection() as connection:
        row = connection.execute("SELECT allowed FROM scopes WHERE kind = 'area'").fetchone()
    assert row is not None
    assert set(row["allowed"]) <= groups


def names(database: Database, pattern: str) -> set[Principal]:
    """Directory groups whose name is like that."""
    with database.connection() as connection:
        rows = connection.execute("SELECT principal FROM containers WHERE name LIKE %s AND kind = 'group'", [pattern])
        return {Principal(r["principal"]) for r in rows}


def sync_access(server: SandboxServer, database: Database, embedder: Embedder, folder: Path) -> dict[str, str]:
    """Read permissions of both sources; the state of each run."""
    settings = world_settings(server, folder, {"revocation_sla": 86_400})
    with tempfile.TemporaryDirectory() as index_folder:
        edge = EdgeIndex(Path(index_folder), embedder=embedder.name, size=embedder.size)
        synchronizer = build_synchronizer(settings, database, Index(edge.reader, edge.writer, edge.close), embedder)
        connectors = build_connectors(settings)
        try:
            return {c.name: synchronizer.sync_access(c).state for c in connectors}
        finally:
            for connector in connectors:
                connector.close()
            edge.close()


def members(database: Database) -> dict[str, set[Principal]]:
    """Rows of the two groups of Azure DevOps that the world has, by the end of their name."""
    with database.connection() as connection:
        rows = connection.execute(
            "SELECT c.name, m.member FROM containers c LEFT JOIN memberships m ON m.container = c.principal "
            "AND m.source = c.source WHERE c.kind = 'azure_devops_group'"
        ).fetchall()
    found: dict[str, set[Principal]] = {}
    for row in rows:
        held = found.setdefault(row["name"].rpartition("\\")[2], set())
        if row["member"]:
            held.add(row["member"])
    return found


def test_a_refused_list_of_members_deletes_none_and_a_whole_one_without_the_group_does(
    ingest_db: Database, embedder: Embedder, tmp_path: Path
) -> None:
    """C019"""
    groups = {"tug": ado("Tug", "iris"), "nord": ado("Nord", "teo")}
    project = {"acl": OPEN, "areas": cut("group:tug", "group:nord"), "work_items": [wi(1)]}
    events = [{"id": "e", "after": "1m", "set_acl": {"on": "area:T", "acl": allow("group:nord")}}]
    devops = {"organization": "NovaRuud", "projects": {"T": project}}
    made = build_world(world(groups=groups, azure_devops=devops, events=events))
    with SandboxServer(made, tmp_path, remember=False) as server:
        iris, teo = (principals.user(TENANT, server.state.oid(k)) for k in ("iris", "teo"))
        both = {"Tug": {iris}, "Nord": {teo}}
        assert set(sync_access(server, ingest_db, embedder, tmp_path).values()) == {"complete"}
        assert members(ingest_db) == both
        tug = connect(server)
        descriptor = next(c.principal for c in tug.access().containers if c.name.endswith("Tug")).partition(":")[2]
        tug.close()
        server.faults.fail(rf"(?i)/ado/[^/]+/_apis/graph/memberships/{descriptor}", status=403, times=None)
        assert sync_access(server, ingest_db, embedder, tmp_path)["azure_devops"] == "partial"
        assert members(ingest_db) == both
        since = DirectoryStore(ingest_db).unresolved_since()
        assert [x.partition(":")[2] for x in since] == [descriptor]
        server.faults.clear()
        server.apply("e")
        assert sync_access(server, ingest_db, embedder, tmp_path)["azure_devops"] == "complete"
        assert members(ingest_db) == {"Nord": {teo}}
        assert DirectoryStore(ingest_db).unresolved_since() == {}
