"""The present of a sandbox with a die in hand: picks what a random change is made to."""

from __future__ import annotations

from random import Random
from typing import Any

from fixtures.sandbox.refs import Ref
from fixtures.sandbox.state import SandboxState
from fixtures.sandbox.state_events import apply_event
from fixtures.sandbox.world_models import Event

_WORDS = ("settle", "partner", "invoice", "limit", "retry", "window", "card", "refund", "batch", "ledger")


class Nothing(Exception):  # noqa: N818 - no error: the change asked for can't happen now
    """There is nothing that this change could be made to."""


class Chance:
    """The present, and what to choose from it."""

    def __init__(self, state: SandboxState, chance: Random) -> None:
        self.state, self.random = state, chance

    def pick(self, found: Any) -> Any:
        rows = sorted(found, key=str)
        if not rows:
            raise Nothing
        return self.random.choice(rows)

    def happen(self, **what: Any) -> str:
        # What comes back does so later than it went: the two are told apart by their times alone.
        minutes = self.random.choice((1, 1, 30) if "restore" in what else (0, 1, 30))
        past = int((self.state.now - self.state.first.now).total_seconds() // 60)
        data = {"id": f"e{len(self.state.journal)}", "after": f"{past + minutes}m", **what}
        apply_event(self.state, Event.model_validate(data))
        return str(what)

    def words(self, n: int = 3) -> str:
        return " ".join(self.random.choices(_WORDS, k=n))

    def name(self) -> str:
        return f"{self.words(1)} {self.random.randrange(10**6)}"

    def text(self) -> str:
        """A text with a heading, a mention of a number, a link to a page, or a definition, now and then."""
        extra = self.random.choice(
            ("", "# Rules\n\n", "\n\nSee #1 and [Start](/Start).", "\n\nDCC means dynamic currency conversion.")
        )
        body = "\n\n".join(self.words(12) + "." for _ in range(self.random.choice((1, 1, 2, 6))))
        return extra + body if extra.startswith("#") else body + extra

    def person(self) -> str:
        return str(self.pick(self.state.world.people))

    def project(self) -> str:
        return str(self.pick(self.state.projects()))

    def work_item(self, *, deleted: bool = False) -> int:
        return int(self.pick(self.state.work_item_numbers(deleted=deleted)))

    def area(self, project: str) -> str:
        return str(self.pick(self.state.areas(project)))

    def repo(self, *, plain: bool = False) -> str:
        """A repo that is on; `plain`: without a code wiki in it."""
        wiki_of = {self.state.code_repo(w) for w in self.state.wikis().values() if w.kind == "code"}
        return str(
            self.pick(
                key
                for key in self.state.repos()
                if not self.state.repo_model(key).disabled and not (plain and key in wiki_of)
            )
        )

    def wiki(self) -> str:
        found = self.state.wikis()
        return str(self.pick(k for k, w in found.items() if w.kind != "code" or self.on(self.state.code_repo(w))))

    def on(self, repo: str) -> bool:
        return repo in self.state.repos() and not self.state.repo_model(repo).disabled

    def page(self, *, deleted: bool = False) -> tuple[str, str]:
        wiki = self.wiki()
        keys = [k for k in self.state.lookup.pages[wiki] if self.state.is_deleted(Ref("page", (wiki, k))) == deleted]
        return wiki, str(self.pick(keys))

    def file(self) -> tuple[str, str]:
        """A file as references name it: by the path that it first had."""
        repo = self.repo()
        wikis = [w for w in self.state.wikis().values() if w.kind == "code" and self.state.code_repo(w) == repo]
        folders = tuple(f"{(w.path or '/').strip('/')}/" for w in wikis)
        present = self.state.files(repo)
        keys = [k for k in self.state.lookup.files(repo) if self.state.file_path_now(repo, k) in present]
        return repo, str(self.pick(k for k in keys if not (folders and k.startswith(folders))))

    def pull(self, *, active: bool = False) -> tuple[str, int]:
        repo = self.repo()
        rows = [n for n, p in self.state.pull_requests(repo).items() if not active or p.status == "active"]
        return repo, int(self.pick(rows))
