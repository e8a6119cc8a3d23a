"""Every address that the sandbox hands out is served, in both of the project's worlds."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fixtures.sandbox.server import SandboxServer
from tests.sandbox.ado import Rest

WORLDS = Path(__file__).resolve().parents[2] / "fixtures" / "worlds"
GONE = "?includeDeleted=true&api-version=7.1-preview"
SEEDS = (
    "/_apis/projects",
    "/_apis/git/repositories?includeHidden=true",
    "/_apis/wiki/wikis",
    "/_apis/wit/recyclebin",
    "/_apis/graph/groups",
    "/_apis/git/pullrequests?searchCriteria.status=all",
)


@pytest.mark.parametrize("world", ["contoso", "havenlicht"])
def test_every_address_leads_somewhere(world: str, tmp_path: Path) -> None:
    with SandboxServer(WORLDS / world, tmp_path, remember=False) as server:
        rest = Rest(server)
        items = [f"/_apis/wit/workitems/{number}?$expand=all" for number in server.state.work_item_numbers()]
        todo = [server.ado_url + path for path in (*SEEDS, *items)]
        own = re.compile(f'"({re.escape(server.ado_url)}[^"]*)"')
        seen: set[str] = set()
        dead: list[str] = []
        while todo:
            url = todo.pop()
            if url in seen or "/MemberAvatars/" in url:
                continue
            seen.add(url)
            asked = url + ("" if "api-version" in url else ("&" if "?" in url else "?") + "api-version=7.1-preview")
            answer = rest.client.get(asked)
            if answer.status_code != 200:
                dead.append(url)
            elif answer.headers["content-type"].startswith("application/json"):
                todo += own.findall(answer.text)
        # A revision names the comment that it took back, which is served only to whoever asks for deleted ones.
        taken_back = [url for url in dead if "/comments/" in url and rest.client.get(url + GONE).status_code == 200]
        assert len(seen) > 100
        assert sorted(dead) == sorted(taken_back)
