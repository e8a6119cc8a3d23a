"""README and docs: every link leads somewhere, every command that they tell exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer

from context_engine.cli import app

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "benchmarks").glob("*.md"))]
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
COMMANDS = set(typer.main.get_command(app).commands)  # type: ignore[attr-defined]


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings."""
    headings = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)]+)\)", page.read_text("utf-8")):
        if link.startswith("http"):
            continue
        path, _, anchor = link.partition("#")
        goal = (page.parent / path).resolve() if path else page
        assert goal.exists(), link
        assert not anchor or anchor in anchors(goal), link


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_every_command_exists(page: Path) -> None:
    text = page.read_text("utf-8")
    assert set(re.findall(r"\bmake (?:[A-Z_]+=\S+ )*([a-z-]+)\b", " ".join(code(text)))) <= TARGETS
    assert set(re.findall(r"context-engine ([a-z][a-z-]*)", " ".join(code(text)))) <= COMMANDS


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_every_option_exists(page: Path) -> None:
    for line in "\n".join(code(page.read_text("utf-8"))).splitlines():
        found = re.search(r"context-engine ((?:[a-z][a-z-]* ?)+)(.*)", line)
        if found:
            assert set(re.findall(r"(--[a-z-]+)", found.group(2))) <= options_of(found.group(1).split()), line


def options_of(words: list[str]) -> set[str]:
    """The options of a command, or of the command of a group."""
    command = typer.main.get_command(app)
    for word in words:
        within = getattr(command, "commands", {})
        if word not in within:
            break
        command = within[word]
    return {o for p in command.params for o in p.opts}


def code(text: str) -> list[str]:
    """What stands as code: blocks and spans."""
    blocks = re.findall(r"```\w*\n(.+?)```", text, re.DOTALL)
    return blocks + re.findall(r"`([^`\n]+)`", re.sub(r"```.+?```", "", text, flags=re.DOTALL))
