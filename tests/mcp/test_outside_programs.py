"""Programs that nobody here wrote: the protocol's own inspector as a client, and its official conformance suite.

They come from npm (tests/node); where they are not installed these tests are skipped, and say so.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections import Counter
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.mcp.conftest import TwoPeople
from tests.mcp.token_proxy import adding_token
from tests.support.engines import LiveEngine
from tests.support.node import FOLDER, node_with

HERE = Path(__file__).parent
PACKAGES = FOLDER / "node_modules" / "@modelcontextprotocol"
INSPECTOR = PACKAGES / "inspector" / "clients" / "launcher" / "build" / "index.js"
SUITE = PACKAGES / "conformance" / "dist" / "index.js"
PATIENCE = 180
_WHEN = re.compile(r"-\d{4}-\d{2}-\d{2}T[\dZ-]+$")
# What any server has to do, whatever it offers. Each is to be run, and to pass.
GENERIC = {
    "2026-07-28": (
        *("server-stateless", "tools-list", "resources-list", "sep-2164-resource-not-found"),
        *("dns-rebinding-protection", "caching", "http-header-validation"),
    ),
    "2025-11-25": ("server-initialize", "ping", "tools-list", "resources-list", "dns-rebinding-protection"),
}


@pytest.fixture(scope="module")
def node() -> Path:
    """A Node that is new enough, where both programs are installed."""
    node_with("@modelcontextprotocol/inspector")
    return node_with("@modelcontextprotocol/conformance")


def run(node: Path, home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a program that keeps its files in a home of its own."""
    environment = {"HOME": str(home), "PATH": os.environ["PATH"], "NO_COLOR": "1"}
    return subprocess.run(
        [str(node), *arguments], capture_output=True, text=True, cwd=home, env=environment, timeout=PATIENCE
    )


def inspect(node: Path, home: Path, live: LiveEngine, token: str, *arguments: str) -> dict[str, Any]:
    """What the inspector prints."""
    url = str(live.client.base_url).rstrip("/") + "/mcp"
    authorization = f"Authorization: Bearer {token}"
    program = (str(INSPECTOR), "--cli", url, "--transport", "http", "--header", authorization)
    done = run(node, home, *program, *arguments)
    assert done.stdout.strip(), done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def test_the_inspector_asks_and_reads_as_the_person_whose_token_it_has(
    node: Path, two: TwoPeople, tmp_path: Path
) -> None:
    token = two.live.token(two.one)
    call = ("--method", "tools/call", "--tool-name", "define", "--tool-arg", "term=CSR")
    answer = inspect(node, tmp_path, two.live, token, *call)
    headers = {"Authorization": f"Bearer {token}"}
    assert answer["structuredContent"] == two.live.client.get(
        "/v1/definitions", params={"term": "CSR"}, headers=headers
    ).json() | {"now": answer["structuredContent"]["now"]}
    read = ("--method", "resources/read", "--uri", two.hidden)
    assert inspect(node, tmp_path, two.live, token, *read)["contents"][0]["uri"] == two.hidden
    refused = run(
        node,
        tmp_path,
        *(str(INSPECTOR), "--cli", str(two.live.client.base_url).rstrip("/") + "/mcp", "--transport", "http"),
        *("--header", f"Authorization: Bearer {two.live.token(two.other)}", *read),
    )
    assert "There is no such resource, or you may not read it" in refused.stdout + refused.stderr


@pytest.mark.parametrize("revision", sorted(GENERIC))
def test_the_conformance_suite_finds_nothing_but_what_is_listed_with_its_reason(
    node: Path, two: TwoPeople, tmp_path: Path, revision: str
) -> None:
    results = tmp_path / "results"
    with adding_token(str(two.live.client.base_url), two.live.token(two.one)) as url:
        arguments = ("server", "--url", f"{url}/mcp", "--requirements", revision, "-o", str(results))
        done = run(node, tmp_path, str(SUITE), *arguments)
    found: dict[str, list[dict[str, Any]]] = {}
    for file in sorted(results.glob("server-*/checks.json")):
        scenario = _WHEN.sub("", file.parent.name.removeprefix("server-"))
        found[scenario] = json.loads(file.read_text("utf-8"))
    assert len(found) >= 30, done.stdout[-2000:] + done.stderr[-2000:]
    failed = {c["id"] for checks in found.values() for c in checks if c["status"] == "FAILURE"}
    passed = {c["id"] for checks in found.values() for c in checks if c["status"] == "SUCCESS"}
    listed = listed_checks()
    assert sorted(c for c in failed if not any(fnmatchcase(c, name) for name in listed)) == []
    assert sorted((passed - failed) & set(listed)) == [], "listed as not passing, and passes"
    for scenario in GENERIC[revision]:
        statuses = Counter(c["status"] for c in found[scenario])
        assert statuses["SUCCESS"], scenario


def listed_checks() -> list[str]:
    """The checks that do not apply, each with a reason."""
    entries = YAML(typ="safe").load(HERE / "conformance.yaml")
    assert all(len(entry["reason"].split()) > 4 for entry in entries)
    return [name for entry in entries for name in entry["checks"]]
