"""A world with something of all that Azure DevOps serves, and clients for it: the official SDK and plain REST."""

from __future__ import annotations

import os
import tempfile
from typing import Any

import httpx

from fixtures.sandbox.server import SandboxServer
from fixtures.sandbox.world import World, build_world
from tests.sandbox.small import GROUPS, NOW, PEOPLE, TENANT, allow, item, page, stamp

# The SDK makes its cache folder when it is imported, in the home folder if it is not told otherwise.
os.environ.setdefault("AZURE_DEVOPS_CACHE_DIR", tempfile.mkdtemp(prefix="ado-sdk-"))

from azure.devops.connection import Connection
from msrest.authentication import BasicAuthentication

Data = dict[str, Any]
LONG = "The retry loop never ended. " * 30 + "The fix is in locker 42."
POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 132\n"
GIT = "2e9eb7ed-3c0a-47d4-87c1-0ffdd275fd87"
CSS = "83e28ad4-2d72-4ceb-97b0-c7726d5502c3"
PROJECT = "52d39943-cb85-4d7f-8fa8-c6baac873819"


def at(day: int) -> str:
    """A time in January."""
    return f"2026-01-{day:02d}T09:00:00Z"


def _commit(key: str, day: int, by: str, files: Data, **more: Any) -> Data:
    return stamp(by, at(day)) | {"key": key, "message": f"Commit {key}", "files": files} | more


REPO: Data = {
    "acl": [{"to": "group:ops", "allow": ["contribute"], "deny": ["force_push"]}, {"to": "cat", "deny": ["read"]}],
    "inherit": False,
    "label": "Secret",
    "branches": {"main": {"acl": [{"to": "ben", "deny": ["force_push"]}]}},
    "commits": [
        _commit(
            "c1",
            3,
            "ann",
            {"README.md": "# App\n", "src/old.py": "print('hello')\n", "logo.png": {"base64": "iVBORwAB"}},
        ),
        _commit("c2", 5, "ben", {"src/big.bin": POINTER, "src/deep/a.py": "a = 1\n"}),
        _commit("c3", 8, "ann", {"src/old.py": None, "src/new.py": "print('hello')\n"}),
        _commit("c4", 9, "ben", {"src/deep/a.py": "a = 2\n"}, branch="topic", message="Fix " + "very " * 80 + "much"),
    ],
    "pull_requests": [
        {
            "id": 7,
            "title": "Fix a",
            "description": LONG,
            "created": stamp("ben", at(10)),
            "source": "topic",
            "commits": ["c4"],
            "reviewers": [{"who": "ann", "vote": 10}, {"who": "cat", "vote": 0}],
            "work_items": [1],
            "threads": [
                {"file": "src/deep/a.py", "comments": [stamp("ann", at(11)) | {"text": "Why two?"}]},
                {
                    "comments": [
                        stamp("ann", at(11)) | {"text": "Looks good"},
                        stamp("ben", at(12)) | {"text": "Thanks"},
                    ]
                },
            ],
        },
        {"id": 8, "title": "Old", "created": stamp("ann", at(4)), "closed": stamp("ann", at(5)), "status": "completed"},
    ],
}
ITEMS: list[Data] = [
    item(
        1,
        "/Sales",
        title="Root",
        tags=["eu", "tax"],
        description="## Steps",
        format="markdown",
        label="Secret",
        assigned="ben",
        changed=stamp("ben", "2026-02-10T09:00:00Z"),
        comments=[stamp("ann", f"2026-02-03T09:{n:02d}:00Z") | {"text": f"Comment {n}"} for n in range(25)]
        + [stamp("ben", "2026-02-03T10:00:00Z") | {"text": "Taken back", "deleted": True}],
        links=[
            {"rel": "child", "to": "work_item:2"},
            {"rel": "supersedes", "to": "work_item:3"},
            {"rel": "commit", "to": "commit:app/c2"},
            {"rel": "hyperlink", "to": "https://example.org/x", "comment": "the standard"},
            {"rel": "wiki", "to": "wiki:P.wiki/Run books/On-call: night"},
            {"rel": "related", "to": "work_item:9"},
        ],
        fields={"severity": "1 - High", "Custom.Cost": 12},
    ),
    item(2, "/Sales/EU", created=stamp("ben"), closed=stamp("ann", "2026-02-20T09:00:00Z")),
    item(3, iteration="2026\\Q1"),
    item(9, title="Gone", deleted=stamp("ann", "2026-02-25T09:00:00Z")),
    *(item(number) for number in range(100, 180)),
]
PAGES: Data = {
    "Home": page("# Home"),
    "Run books/On-call: night": {
        "label": "Secret",
        "owner": "ann",
        "revisions": [
            stamp("ann", at(3)) | {"content": "Call Ann."},
            stamp("ben", at(20)) | {"content": "Call Ben.", "message": "New number"},
        ],
    },
    "Run books/Old": page("Old words", deleted=stamp("ann", at(21))),
    "Run books/Spare": page("Spare words"),
}
P: Data = {
    "description": "The first project",
    "label": "Public",
    "acl": [{"to": "group:staff", "allow": ["read", "contribute"]}, {"to": "group:ops", "allow": ["read"]}],
    "areas": {
        "/Sales": {"acl": [{"to": "ben", "deny": ["read"]}]},
        "/Sales/EU": {"inherit": False},
        "/Empty": {},
    },
    "work_items": ITEMS,
    "wikis": {
        "P.wiki": {"acl": allow("gil"), "pages": PAGES},
        "Docs": {"kind": "code", "repo": "app", "path": "/docs", "pages": {"Guide": page("How to")}},
    },
    "repos": {"app": REPO, "off": {"disabled": True, "commits": []}, "empty": {"commits": []}},
}
OTHERS: Data = {
    "Quay": {"visibility": "organization", "acl": allow("group:everyone")},
    "Rock": {"visibility": "public"},
    "Salt": {},
    "Tide and time": {"acl": allow("bot"), "work_items": [item(500)]},
}


def ado_world(projects: Data | None = None, **more: Any) -> World:
    """The world; other projects or events can be given."""
    return build_world(
        {
            "format": 1,
            "name": "small",
            "now": NOW,
            "tenant_id": TENANT,
            "labels": ["Public", "Secret"],
            "people": PEOPLE,
            "groups": GROUPS,
            "azure_devops": {
                "organization": "Small",
                "projects": projects if projects is not None else {"P": P} | OTHERS,
            },
        }
        | more
    )


def sdk(server: SandboxServer) -> Any:
    """The clients of the official SDK."""
    return Connection(base_url=server.ado_url, creds=BasicAuthentication("", "sandbox-pat")).clients_v7_1


class Rest:
    """Plain REST with the connector's credential."""

    def __init__(self, server: SandboxServer) -> None:
        self.client = httpx.Client(
            base_url=server.ado_url, auth=("", "sandbox-pat"), headers={"Accept": "application/json"}, trust_env=False
        )

    def get(self, path: str, /, **params: Any) -> Any:
        """The JSON of a 200 answer."""
        answer = self.client.get(path, params={"api-version": "7.1-preview", **_texts(params)})
        assert answer.status_code == 200, f"{path}: {answer.status_code} {answer.text[:300]}"
        return answer.json()

    def post(self, path: str, body: Any, /, **params: Any) -> Any:
        """The JSON that a reading POST answers."""
        answer = self.client.post(path, json=body, params={"api-version": "7.1-preview", **_texts(params)})
        assert answer.status_code == 200, f"{path}: {answer.status_code} {answer.text[:300]}"
        return answer.json()

    def refused(self, path: str, /, **params: Any) -> tuple[int, str, str]:
        """Status, type key and message of a refusal."""
        answer = self.client.get(path, params={"api-version": "7.1-preview", **_texts(params)})
        body = answer.json()
        return answer.status_code, body["typeKey"], body["message"]

    def header_pages(self, path: str, /, **params: Any) -> list[list[Any]]:
        """The rows of each page of a list whose token stands in a header."""
        pages: list[list[Any]] = []
        token: str | None = None
        while True:
            query = {"api-version": "7.1-preview", **_texts(params), **({"continuationToken": token} if token else {})}
            answer = self.client.get(path, params=query)
            assert answer.status_code == 200, answer.text
            pages.append(answer.json()["value"])
            token = answer.headers.get("x-ms-continuationtoken")
            if token is None:
                return pages
            assert len(pages) < 100, "a list without an end"


def _texts(params: Data) -> Data:
    return {k: str(v).lower() if isinstance(v, bool) else v for k, v in params.items()}
