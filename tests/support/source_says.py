"""Whether a source lets somebody read what stands at an address, by the world's own rules (see `sandbox.access`)."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import unquote

from core import uris
from fixtures.sandbox.access import may_read
from fixtures.sandbox.refs import Ref
from fixtures.sandbox.state import SandboxState


class Source:
    """The present of a sandbox, asked by address. An address that the source does not know, nobody may read."""

    def __init__(self, state: SandboxState) -> None:
        self._state = state
        ids = state.ids
        self._repos = {ids.repo(k): k for k in state.lookup.repos}
        self._wikis = {ids.wiki(k, code=w.kind == "code"): k for k, (_, w) in state.lookup.wikis.items()}
        self._channels = {
            ids.channel(team, key): (team, key) for team, model in state.world.teams.items() for key in model.channels
        }

    def addresses(self) -> Iterator[str]:
        """The address of everything that is there now."""
        state, ids = self._state, self._state.ids
        organization, tenant = state.organization or "", state.tenant_id
        for number in state.work_item_numbers():
            yield uris.work_item(organization, number)
            for comment, _ in state.comments(number):
                yield uris.work_item_comment(organization, number, comment)
        for wiki_id, wiki in self._wikis.items():
            for key in state.lookup.pages[wiki] if wiki in state.wikis() else ():
                if not state.is_deleted(Ref("page", (wiki, key))):
                    yield uris.wiki_page(organization, wiki_id, state.page_now(wiki, key).id)
        for repo_id, repo in self._repos.items():
            if repo in state.repos():
                yield from (uris.file(organization, repo_id, path) for path in state.files(repo))
                yield from (uris.commit(organization, repo_id, c.sha) for c in state.git(repo).history())
                yield from (uris.pull_request(organization, repo_id, n) for n in state.pull_requests(repo))
        for team, channel in state.channel_keys():
            for root in state.messages(team, channel):
                yield uris.thread(tenant, ids.channel(team, channel), root.id)
                for reply in state.replies(team, channel, root.key):
                    yield uris.reply(tenant, ids.channel(team, channel), root.id, reply.id)

    def says(self, person: str, address: str) -> bool:
        """Whether `person` may read the item, comment or reply at `address` now."""
        found = self.refs(address)
        return bool(found) and all(may_read(self._state, person, ref) for ref in found)

    def refs(self, address: str) -> list[Ref]:
        """What an address names, all of which has to be readable; [] for what is not there."""
        parts = [unquote(p) for p in address.removeprefix("ctx://").split("/")]
        state = self._state
        match parts:
            case ["ado", _, "work-items", number, *rest]:
                if int(number) not in state.lookup.work_items or int(number) not in state.work_item_numbers():
                    return []
                refs = [Ref("work_item", (number,))]
                return refs + ([Ref("comment", (number, rest[1]))] if rest[:1] == ["comments"] else [])
            case ["ado", _, "wikis", wiki, "pages", page]:
                return self._page(wiki, int(page))
            case ["ado", _, "repos", repo, "files", *path]:
                key = self._repos.get(repo)
                if key is None or key not in state.repos() or "/".join(path) not in state.files(key):
                    return []
                return [Ref("repo", (key,))]
            case ["ado", _, "repos", repo, *_]:
                key = self._repos.get(repo)
                return [Ref("repo", (key,))] if key is not None and key in state.repos() else []
            case ["teams", _, "channels", channel, "messages", root, *rest]:
                return self._message(channel, root, rest[1] if rest[:1] == ["replies"] else None)
            case _:
                raise AssertionError(f"no address that we know: {address}")

    def _page(self, wiki_id: str, number: int) -> list[Ref]:
        wiki = self._wikis.get(wiki_id)
        if wiki is None or wiki not in self._state.wikis():
            return []
        for key in self._state.lookup.pages[wiki]:
            ref = Ref("page", (wiki, key))
            if not self._state.is_deleted(ref) and self._state.page_now(wiki, key).id == number:
                return [ref]
        return []

    def _message(self, channel_id: str, root_id: str, reply_id: str | None) -> list[Ref]:
        where = self._channels.get(channel_id)
        if where is None or where not in set(self._state.channel_keys()):
            return []
        found = []
        for id, root in ((root_id, None), (reply_id, root_id)):
            if id is not None:
                message = self._state.message_of_id(*where, id, root)
                if message is None or message.deleted is not None:
                    return []
                found.append(Ref("message", (*where, message.key)))
        return found
