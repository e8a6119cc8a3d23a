"""The loader accepts what the published schema allows, name for name."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import fixtures.sandbox
from fixtures.sandbox import world_models as m
from fixtures.sandbox.access import readable
from fixtures.sandbox.prune import world_without_unreadable
from fixtures.sandbox.references import target
from fixtures.sandbox.state import SandboxState
from fixtures.sandbox.values import Node
from fixtures.sandbox.world import build_world
from tests.sandbox import small

SCHEMA: dict[str, Any] = json.loads((Path(fixtures.sandbox.__file__).parent / "world.schema.json").read_text())
DEFS = SCHEMA["$defs"]
PROJECT = DEFS["project"]["properties"]
PAGE = DEFS["wiki"]["properties"]["pages"]["additionalProperties"]
REPO = DEFS["repo"]["properties"]
PULL = REPO["pull_requests"]["items"]
THREAD = PULL["properties"]["threads"]["items"]
PAIRS: list[tuple[type[Node], dict[str, Any]]] = [
    (m.World, SCHEMA),
    (m.Person, DEFS["person"]),
    (m.Group, DEFS["group"]),
    (m.AclEntry, DEFS["acl"]["items"]),
    (m.AzureDevOps, DEFS["azure_devops"]),
    (m.Project, DEFS["project"]),
    (m.Area, PROJECT["areas"]["additionalProperties"]),
    (m.WorkItem, DEFS["work_item"]),
    (m.Comment, DEFS["work_item"]["properties"]["comments"]["items"]),
    (m.Link, DEFS["work_item"]["properties"]["links"]["items"]),
    (m.Stamp, DEFS["stamp"]),
    (m.Wiki, DEFS["wiki"]),
    (m.Page, PAGE),
    (m.PageRevision, PAGE["properties"]["revisions"]["items"]),
    (m.Repo, DEFS["repo"]),
    (m.Branch, REPO["branches"]["additionalProperties"]),
    (m.Commit, REPO["commits"]["items"]),
    (m.PullRequest, PULL),
    (m.Reviewer, PULL["properties"]["reviewers"]["items"]),
    (m.Thread, THREAD),
    (m.ThreadComment, THREAD["properties"]["comments"]["items"]),
    (m.Team, DEFS["team"]),
    (m.Channel, DEFS["channel"]),
    (m.Message, DEFS["message"]),
    (m.Event, DEFS["event"]),
    (m.Membership, DEFS["membership"]),
    (m.OneItem, DEFS["one_item"]),
    (m.SetAcl, DEFS["event"]["properties"]["set_acl"]),
    (m.Edit, DEFS["event"]["properties"]["edit"]),
    (m.Move, DEFS["event"]["properties"]["move"]),
    (m.Rename, DEFS["event"]["properties"]["rename"]),
    (m.DisablePerson, DEFS["event"]["properties"]["disable_person"]),
    (m.Post, DEFS["event"]["properties"]["post"]),
    (m.SetLabel, DEFS["event"]["properties"]["label"]),
    (m.SetAccessLevel, DEFS["event"]["properties"]["set_access_level"]),
]


@pytest.mark.parametrize(("model", "schema"), PAIRS, ids=[model.__name__ for model, _ in PAIRS])
def test_a_model_has_the_names_and_the_required_names_of_the_schema(model: type[Node], schema: dict[str, Any]) -> None:
    assert set(model.model_fields) == set(schema["properties"])
    required = {name for name, field in model.model_fields.items() if field.is_required()}
    assert required == set(schema.get("required", []))


def test_the_event_kinds_are_those_of_the_schema() -> None:
    assert set(m.EVENT_KINDS) == {one["required"][0] for one in DEFS["event"]["oneOf"]}


PEOPLE = st.sampled_from(["ann", "ben", "person:cat", "gil", "bot"])
WHO = st.one_of(PEOPLE, st.sampled_from(["group:staff", "group:ops", "group:everyone"]))
TIMES = st.sampled_from([small.AT, "2025-12-31T23:59:59+01:00", "2026-03-01T10:00:00.250Z"])
WORDS = st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), max_size=12)
KEYS = st.text("abc/ .-:é", min_size=1, max_size=6).filter(lambda s: s.strip(" /") != "")
LABEL = st.sampled_from(["Public", "Secret"])


def part(required: dict[str, Any], **optional: Any) -> Any:
    return st.fixed_dictionaries(required, optional=optional)


STAMP = part({"by": PEOPLE, "at": TIMES})
RIGHTS = st.lists(st.sampled_from(["read", "write"]), max_size=2)
ACL = st.lists(part({"to": WHO}, allow=RIGHTS, deny=RIGHTS, why=WORDS), max_size=3)
COMMENT = part({"by": PEOPLE, "at": TIMES, "text": WORDS}, deleted=st.booleans())
AREAS = st.sampled_from(["/", "/A", "/A/B", "C", "A\\B"])
LINK = part({"rel": WORDS, "to": st.sampled_from(["https://x.example", "group:staff", "ann"])}, comment=WORDS)
ITEM = part(
    {"type": WORDS, "title": WORDS, "created": STAMP},
    state=WORDS, area=AREAS, iteration=WORDS, tags=st.lists(WORDS, max_size=2), label=LABEL, changed=STAMP,
    closed=STAMP, assigned=PEOPLE, description=WORDS, format=st.sampled_from(["html", "markdown"]),
    fields=st.dictionaries(WORDS, st.one_of(WORDS, st.integers(), st.none()), max_size=2),
    comments=st.lists(COMMENT, max_size=2), deleted=STAMP,
    links=st.lists(LINK, max_size=1),
)  # fmt: skip
REVISION = part({"by": PEOPLE, "at": TIMES, "content": WORDS}, message=WORDS)
PAGES = st.dictionaries(
    KEYS, part({"revisions": st.lists(REVISION, min_size=1, max_size=2)}, label=LABEL, owner=PEOPLE, deleted=STAMP),
    max_size=3,
).filter(lambda pages: len({key.strip("/") for key in pages}) == len(pages))  # fmt: skip
FILES = st.dictionaries(KEYS, st.one_of(WORDS, st.none(), st.just({"base64": "AAH/"})), max_size=2)
COMMIT = part({"by": PEOPLE, "at": TIMES, "message": WORDS, "files": FILES}, branch=st.sampled_from(["main", "f/x"]))
PULLS = part(
    {"title": WORDS, "created": STAMP},
    description=WORDS, closed=STAMP, status=st.sampled_from(["active", "completed", "abandoned"]),
    source=st.sampled_from(["f/x"]), target=st.just("main"),
    reviewers=st.lists(part({"who": WHO, "vote": st.sampled_from([10, 5, 0, -5, -10])}), max_size=2),
    threads=st.lists(part({"comments": st.lists(part({"by": PEOPLE, "at": TIMES, "text": WORDS}), max_size=1)})),
)  # fmt: skip
MESSAGE = part(
    {"by": PEOPLE, "at": TIMES, "body": WORDS},
    subject=WORDS, format=st.sampled_from(["html", "text"]), importance=st.sampled_from(["normal", "high", "urgent"]),
    mentions=st.lists(WHO, max_size=2), reactions=st.dictionaries(WORDS, st.lists(PEOPLE, max_size=2), max_size=1),
    pinned=st.booleans(), label=LABEL, edited=TIMES, deleted=TIMES,
    attachments=st.lists(st.dictionaries(WORDS, WORDS, max_size=2), max_size=1),
)  # fmt: skip


@st.composite
def worlds(draw: st.DrawFn) -> dict[str, Any]:
    items = draw(st.lists(ITEM, max_size=3))
    commits = draw(st.lists(COMMIT, max_size=3))
    pulls = draw(st.lists(PULLS, max_size=2))
    messages = draw(st.lists(MESSAGE, max_size=3))
    replies = draw(st.lists(MESSAGE, max_size=2))
    keyed = [message | {"key": f"m{n}"} for n, message in enumerate(messages)]
    if keyed:
        keyed[0]["replies"] = [reply | {"key": f"r{n}"} for n, reply in enumerate(replies)]
    repo = draw(part({}, acl=ACL, inherit=st.booleans(), disabled=st.booleans(), label=LABEL))
    repo |= {"commits": [c | {"key": f"c{n}"} for n, c in enumerate(commits)]}
    repo |= {"pull_requests": [pull | {"id": n} for n, pull in enumerate(pulls)]}
    project = draw(part({}, acl=ACL, visibility=st.sampled_from(["private", "organization", "public"]), label=LABEL))
    areas = draw(st.dictionaries(st.sampled_from(["/", "/A", "/A/B"]), part({}, acl=ACL, inherit=st.booleans())))
    wikis = {"P.wiki": draw(part({"pages": PAGES}, acl=ACL, inherit=st.booleans()))}
    wikis["Docs"] = {"kind": "code", "repo": "r", "path": "/docs", "pages": draw(PAGES)}
    project |= {"work_items": [i | {"id": n} for n, i in enumerate(items, 1)], "areas": areas, "wikis": wikis}
    project["repos"] = {"r": repo}
    channel = draw(part({"messages": st.just(keyed)}, members=st.lists(WHO, max_size=2)))
    channel["kind"] = draw(st.sampled_from(["standard", "private", "shared"]))
    team = draw(part({"members": st.lists(WHO, max_size=2)}, visibility=st.sampled_from(["private", "public"])))
    return {
        "format": 1, "name": "drawn", "now": small.NOW, "tenant_id": small.TENANT, "labels": ["Public", "Secret"],
        "people": small.PEOPLE, "groups": small.GROUPS,
        "azure_devops": {"organization": "Drawn", "projects": {"P": project}},
        "teams": {"T": team | {"channels": {"C": channel}}},
    }  # fmt: skip


@settings(
    max_examples=int(os.environ.get("TEST_WORLD_EXAMPLES", "20")),
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
@given(worlds())
def test_what_the_schema_allows_is_loaded_served_and_pruned(data: dict[str, Any]) -> None:
    jsonschema.validate(data, SCHEMA)
    world = build_world(data)
    state = SandboxState(world)
    for ref in state.everything():
        target(state, str(ref))
    for person in ("ann", "cat", "gil"):
        pruned = SandboxState(world_without_unreadable(world, person))
        assert readable(pruned, person) == readable(state, person)
