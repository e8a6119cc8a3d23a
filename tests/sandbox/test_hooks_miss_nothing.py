"""Whoever took every delivery, and nothing else, would know who is in what, where each branch stands, and each item."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from fixtures.sandbox.azure_devops.hook_events import EVENT_TYPES
from fixtures.sandbox.graph.directory import Directory
from fixtures.sandbox.graph.http import Graph, GraphSettings
from fixtures.sandbox.graph.teams import Teams
from fixtures.sandbox.hooks.delivery import Source
from fixtures.sandbox.hooks.subscriptions import GraphSubscription, HookSubscription, Watched
from fixtures.sandbox.server import SandboxServer
from fixtures.sandbox.state_teams import ChannelMember
from tests.sandbox.small import Serve
from tests.support.random_events import change
from tests.support.small_organization import small_organization

pytest_plugins = ["tests.sandbox.live"]

ROUNDS = 150
NOWHERE = "http://127.0.0.1:9"


@pytest.fixture
def server(serve: Serve) -> SandboxServer:
    """The small organization, with every subscription that there can be."""
    made = serve(small_organization(teams=True), remember=False)
    made.hooks.settings.wiki_pushes = True
    book, now = made.hooks.book, made.hooks.book.now()
    everything = frozenset({"created", "updated", "deleted"})
    watched = [Watched("group"), Watched("team_member"), Watched("message")]
    watched += [Watched("channel_member", team, indirect=True) for team in made.state.teams()]
    with made.state.lock:
        for event in EVENT_TYPES:
            inputs = {"url": NOWHERE, "resourceDetailsToSend": "all"}
            book.keep(HookSubscription(event, event, {}, inputs, now, now))
        for number, one in enumerate(watched):
            end = now + timedelta(days=1)
            book.keep(GraphSubscription(str(number), "a", "a", "", one, everything, NOWHERE, None, None, end))
    return made


def told(server: SandboxServer, source: Source) -> Iterator[Any]:
    """What was sent by a service: the events, or the items of each batch."""
    for delivery in server.hooks.take():
        if delivery.source == source:
            body = json.loads(delivery.body)
            yield from body["value"] if source == "graph" else [body]


def test_every_membership_follows_from_what_graph_tells(server: SandboxServer) -> None:
    state = server.state
    assert server.issuer_of is not None
    graph = Graph(state, server.issuer_of, server.faults, server.graph_url, GraphSettings())
    directory, teams = Directory(graph), Teams(graph)

    def served() -> tuple[dict[str, set[str]], set[str]]:
        groups = {
            directory.group_id(ref): {directory.object_id(who) for who in directory.members(ref)}
            for ref in directory.group_refs()
        }
        members: set[str] = set()
        for team in state.teams():
            members |= {teams.member(team, ChannelMember(key, False))["id"] for key in state.team_people(team)}
        for team, channel in state.channel_keys():
            if state.world.teams[team].channels[channel].kind == "standard":
                continue
            rows = state.channel_members(team, channel)
            members |= {teams.member(f"{team}/{channel}", row)["id"] for row in rows}
        return groups, members

    groups, members = served()
    for number in range(ROUNDS):
        change(state, number, ("member", "member in teams", "post"))
        for item in told(server, "graph"):
            data = item["resourceData"]
            if "members@delta" in data:
                known = groups[data["id"]]
                for row in data["members@delta"]:
                    known.discard(row["id"]) if "@removed" in row else known.add(row["id"])
            elif "embers('" in item["resource"]:
                members.add(data["id"]) if item["changeType"] == "created" else members.discard(data["id"])
        assert (groups, members) == served()


def test_every_branch_follows_from_the_pushes(server: SandboxServer) -> None:
    state = server.state

    def served() -> dict[str, dict[str, str]]:
        return {
            repo.id: {f"refs/heads/{branch}": head for branch, head in repo.branches().items()}
            for repo in state.repos(hidden=True).values()
        }

    known = served()
    kinds = ("push", "edit file", "move file", "delete file", "reset branch", "complete", "new page", "edit page")
    for number in range(ROUNDS):
        change(state, number, kinds)
        for event in told(server, "azure_devops"):
            if event["eventType"] != "git.push":
                continue
            heads = known[event["resource"]["repository"]["id"]]
            for update in event["resource"]["refUpdates"]:
                assert heads.get(update["name"], "0" * 40) == update["oldObjectId"]
                heads[update["name"]] = update["newObjectId"]
        assert known == served()


def test_every_revision_of_a_work_item_is_an_event_but_for_comments_that_change(server: SandboxServer) -> None:
    state = server.state
    before = {number: len(state.revisions(number)) for number in state.lookup.work_items}
    kinds = ("new item", "edit item", "move item", "delete item", "restore item", "comment", "edit comment", "label")
    seen: set[tuple[int, int]] = set()
    for number in range(ROUNDS):
        change(state, number, kinds)
        for event in told(server, "azure_devops"):
            resource = event["resource"]
            seen.add((resource.get("workItemId", resource["id"]), resource["rev"]))
    made: set[tuple[int, int]] = set()
    for number in state.lookup.work_items:
        rows = state.revisions(number)
        said: set[int | None] = {None}
        for row in rows:
            if row.rev > before.get(number, 0) and (row.comment is None or row.comment not in said):
                made.add((number, row.rev))
            said.add(row.comment)
    assert seen == made
