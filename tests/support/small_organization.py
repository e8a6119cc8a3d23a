"""A small organization with one of everything that is read: quick to read whole, rich enough to go wrong."""

from __future__ import annotations

from typing import Any

from fixtures.sandbox.world_models import World
from tests.sandbox.small import AT, allow, commit, deny, item, message, page, stamp, world

Data = dict[str, Any]


def small_organization(*, teams: bool = False) -> World:
    """Two projects: work items with comments and links, a project wiki, a code wiki, repos, pull requests; with
    `teams` two of these, too, and a channel of each kind."""
    one: Data = {
        "acl": allow("group:staff"),
        "areas": {"/Pay": {}, "/Pay/Cards": {"acl": deny("ben")}, "/Closed": {"inherit": False, "acl": allow("ann")}},
        "work_items": [
            item(1, description="Settlement of card payments", links=[{"rel": "related", "to": "work_item:2"}]),
            item(2, "/Pay/Cards", comments=[stamp("ben") | {"text": "A first word"}, stamp() | {"text": "A second"}]),
            item(3, "/Closed", description="SLA means service level agreement.", tags=["pay", "urgent"]),
            item(4, "/Pay", state="Closed", closed=stamp("ben"), label="Secret"),
            item(5, links=[{"rel": "wiki", "to": "wiki:Guide/Start"}, {"rel": "pr", "to": "pr:engine/1"}]),
        ],
        "wikis": {
            "Guide": {
                "pages": {
                    "Start": page("# Start\n\nSee [Terms](/Terms) and #1.\n\n## Rules\n\nPay within ten days."),
                    "Terms": page("SLA: service level agreement\n\nDeprecated: replaced by [Start](/Start)."),
                    "Start/Deep": page("# Deep\n\nDeep words about payments."),
                }
            },
            "Manual": {
                "kind": "code",
                "repo": "engine",
                "path": "/docs",
                "pages": {"Usage": page("# Usage\n\nRun it.")},
            },
        },
        "repos": {
            "engine": {
                "commits": [
                    commit("c1", a_py="def pay(amount):\n    return amount\n", b_md="# B\n\nSee a.py and #1.\n"),
                    commit(
                        "c2", a_py="def pay(amount):\n    return amount + 1\n", c_sql="CREATE VIEW v AS SELECT 1;\n"
                    ),
                    stamp("ben") | {"key": "c3", "message": "Try", "branch": "topic", "files": {"d.py": "x = 1\n"}},
                ],
                "pull_requests": [
                    {
                        "id": 1,
                        "title": "Round up",
                        "description": "Rounds up, for #1",
                        "created": stamp("ben"),
                        "source": "topic",
                        "target": "main",
                        "reviewers": [{"who": "ann", "vote": 10}],
                        "threads": [{"file": "a.py", "comments": [stamp() | {"text": "Why one?"}]}],
                        "work_items": [1],
                    },
                    {"id": 2, "title": "Old", "created": stamp(), "closed": stamp("ben"), "status": "abandoned"},
                ],
            },
            "tools": {"acl": allow("group:ops"), "commits": [commit("t1", x_sh="#!/bin/sh\necho tool\n")]},
        },
    }
    two: Data = {
        "visibility": "organization",
        "acl": deny("group:ops"),
        "areas": {"/Lab": {"acl": allow("gil")}},
        "work_items": [item(11, "/Lab", description="Try a new partner"), item(12)],
        "wikis": {"Lab": {"pages": {"Home": page("# Home\n\nWelcome.")}}},
        "repos": {
            "lab": {"commits": [stamp("cat", AT) | {"key": "l1", "message": "Begin", "files": {"l.py": "y = 2\n"}}]}
        },
    }
    talk: Data = {
        "Core": {
            "members": ["ann", "group:ops", "gil"],
            "channels": {
                "General": {
                    "messages": [
                        message("g1", "How do I settle #1?", replies=[message("g2", "As in [Start](/Start).", "ben")])
                    ]
                },
                "Board": {"kind": "private", "members": ["ann", "dan"], "messages": [message("p1", "Costs")]},
                "Bridge": {
                    "kind": "shared",
                    "members": ["ben"],
                    "shared_with": ["team:Side"],
                    "messages": [message("s1", "DCC means dynamic currency conversion.", "ben")],
                },
            },
        },
        "Side": {
            "visibility": "public",
            "members": ["cat", "dan", "gil"],
            "channels": {"General": {"messages": [message("h1", "Welcome", "cat")]}},
        },
    }
    whole = world(one, teams=talk if teams else None)
    made = whole.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_defaults=True)
    made["azure_devops"]["projects"]["Q"] = two
    made["format"] = 1
    return World.model_validate(made)
