"""What the readers give equals the world: every item once, with its text, people, times, addresses and scope."""

from __future__ import annotations

from urllib.parse import unquote

from core.items import ItemKind, Role, Source, TextFormat
from fixtures.sandbox.access import may_read
from fixtures.sandbox.references import target
from fixtures.sandbox.refs import Ref
from fixtures.sandbox.server import SandboxServer
from fixtures.sandbox.state import SandboxState
from tests.ingestion.azure_devops.support import Store, is_read, item_refs


def present_refs(state: SandboxState, kind: str) -> list[Ref]:
    """Items of a kind that are there and that somebody could read."""
    refs = [r for r in item_refs(state, [kind]) if is_read(state, r)]
    return [r for r in refs if any(may_read(state, p, r) for p in state.world.people)]


def test_everything_readable_is_read_with_its_title_number_and_address(server: SandboxServer, crawled: Store) -> None:
    missing = []
    for kind in ("work_item", "page", "file", "commit", "pr"):
        refs = present_refs(server.state, kind)
        for ref in refs:
            wanted = target(server.state, str(ref))
            assert wanted.uri is not None
            item = crawled.items.get(wanted.uri)
            if item is None:
                if wanted.uri not in crawled.skipped:
                    missing.append(str(ref))
                continue
            assert item.url == wanted.url
            assert item.title == wanted.title
            assert item.source.value == wanted.source
            if kind in ("work_item", "pr"):
                assert item.number == wanted.number
    assert missing == []


def test_nothing_is_read_that_the_world_does_not_have(server: SandboxServer, crawled: Store) -> None:
    state = server.state
    known = {target(state, str(ref)).uri for ref in item_refs(state)}
    wiki_commits = {u for u, i in crawled.items.items() if i.kind is ItemKind.COMMIT} - known
    # A code wiki's pages can have commits of their own in the world's repo.
    assert all(crawled.items[u].parts[0].text for u in wiki_commits)
    assert {u for u in crawled.items if u not in known} <= wiki_commits
    assert crawled.failures == {}


def test_deleted_items_are_not_read(server: SandboxServer, crawled: Store) -> None:
    state = server.state
    for ref in item_refs(state):
        if state.is_deleted(ref):
            assert target(state, str(ref)).uri not in crawled.items


def test_work_items_carry_people_times_state_and_comments(server: SandboxServer, crawled: Store) -> None:
    state = server.state
    for ref in present_refs(state, "work_item"):
        number = int(ref.parts[0])
        project, model = state.lookup.work_items[number]
        item = crawled.items[target(state, str(ref)).uri or ""]
        assert item.author is not None
        assert item.author.principal == f"user:{state.tenant_id}/{state.oid(model.created.by)}"
        assert item.created_at == model.created.at
        assert item.modified_at == state.revisions(number)[-1].at
        assert item.version == str(state.revisions(number)[-1].rev)
        assert item.state == state.revisions(number)[-1].state
        assert item.container == (project + model.area).rstrip("/")
        assert item.attributes["type"] == model.type
        comments = state.comments(number)
        parts = [p for p in item.parts if p.uri != item.uri]
        assert [p.uri for p in parts] == [
            f"{item.uri}/comments/{n}" for n, _ in sorted(comments, key=lambda c: c[1].at)
        ]
        assert {p.at for p in parts} == {c.at for _, c in comments}
        roles = {(c.role, c.person.principal) for c in item.contributions}
        if model.assigned:
            assert (Role.ASSIGNED, f"user:{state.tenant_id}/{state.oid(model.assigned)}") in roles
        if model.closed:
            assert (Role.CLOSED, f"user:{state.tenant_id}/{state.oid(model.closed.by)}") in roles
        for _, comment in comments:
            assert (Role.COMMENTED, f"user:{state.tenant_id}/{state.oid(comment.by)}") in roles


def test_links_of_work_items_lead_to_what_they_name(server: SandboxServer, crawled: Store) -> None:
    state = server.state
    linked = 0
    for ref in present_refs(state, "work_item"):
        _, model = state.lookup.work_items[int(ref.parts[0])]
        item = crawled.items[target(state, str(ref)).uri or ""]
        for link in model.links:
            if link.to.startswith(("http://", "https://")):
                assert link.to in {x.to for x in item.links}
                linked += 1
                continue
            wanted = state.lookup.ref(link.to)
            if wanted.kind in ("work_item", "commit", "pr", "page", "file"):
                assert target(state, link.to).uri in {x.to for x in item.links}, (str(ref), link.to)
                linked += 1
    assert linked > 0


def test_pages_carry_their_last_revision_and_their_first_author(server: SandboxServer, crawled: Store) -> None:
    state = server.state
    for ref in present_refs(state, "page"):
        page = state.page_now(*ref.parts)
        item = crawled.items[target(state, str(ref)).uri or ""]
        first, last = page.page.revisions[0], page.page.revisions[-1]
        assert item.modified_at == last.at
        assert item.created_at == first.at
        assert item.author is not None
        assert item.author.name == state.world.people[last.by].name
        roles = {(c.role, c.person.principal) for c in item.contributions}
        assert (Role.WROTE, f"user:{state.tenant_id}/{state.oid(first.by)}") in roles
        assert item.container == state.name(Ref("wiki", (ref.parts[0],)))


def test_a_code_wiki_s_page_is_not_read_as_a_file_too(server: SandboxServer, crawled: Store) -> None:
    state = server.state
    for wiki, (_, model) in state.lookup.wikis.items():
        if model.kind != "code":
            continue
        repo = state.wiki_repo(wiki)
        for page in state.pages(wiki):
            uri = f"ctx://ado/{(state.organization or '').lower()}/repos/{repo.id}/files{page.git_path}"
            assert uri not in {unquote(u) for u in crawled.items}
            item = next(
                i for i in crawled.items.values() if i.kind is ItemKind.WIKI_PAGE and f"/pages/{page.id}" in i.uri
            )
            assert item.scope == f"ado/{(state.organization or '').lower()}/repo/{repo.id}"


def test_files_carry_the_last_commit_that_touched_them(server: SandboxServer, crawled: Store) -> None:
    state = server.state
    files = [i for i in crawled.items.values() if i.kind is ItemKind.FILE]
    assert files
    repos = {state.git(key).id: state.git(key) for key in state.repos()}
    for item in files:
        repo = repos[item.uri.split("/")[5]]
        present = repo.files()[item.attributes["path"]]
        commit = repo.commit(present.commit)
        assert commit is not None
        assert item.version == commit.sha
        assert item.modified_at == commit.at
        assert item.author is not None
        assert item.author.principal == f"user:{state.tenant_id}/{state.oid(commit.by)}"
        code = [p for p in item.parts if p.format is TextFormat.CODE]
        if code:
            assert code[0].text == present.content.decode().replace("\r\n", "\n")


def test_commits_name_the_files_and_the_work_items_that_they_touch(server: SandboxServer, crawled: Store) -> None:
    state = server.state
    checked = 0
    for key in state.repos():
        repo = state.git(key)
        for commit in repo.history():
            uri = f"ctx://ado/{(state.organization or '').lower()}/repos/{repo.id}/commits/{commit.sha}"
            item = crawled.items.get(uri)
            if item is None:
                continue
            touched = {link.to for link in item.links if link.rel == "touches"}
            names = {unquote(t).partition("/files/")[2] for t in touched}
            assert names <= {c.path for c in commit.changes if c.content is not None}
            # A world may write down a commit that changes nothing.
            assert names >= {c.path for c in commit.changes if c.type == "add"}
            assert commit.message.strip() in item.parts[0].text
            checked += 1
    assert checked > 0


def test_pull_requests_carry_votes_threads_and_work_items(server: SandboxServer, crawled: Store) -> None:
    state = server.state
    checked = 0
    for ref in present_refs(state, "pr"):
        model = state.lookup.pull_requests[ref.parts[0]][int(ref.parts[1])]
        item = crawled.items[target(state, str(ref)).uri or ""]
        assert item.state == model.status
        assert item.created_at == model.created.at
        text = "\n".join(p.text for p in item.parts)
        assert (model.description or "").strip()[-40:] in text
        for thread in model.threads:
            for comment in thread.comments:
                part = next(p for p in item.parts if p.at == comment.at and p.text.strip() == comment.text.strip())
                assert part.author is not None
                assert part.author.name == state.world.people[comment.by].name
                if thread.file:
                    assert part.heading[0].startswith("/" + thread.file.lstrip("/"))
        roles = {(c.role, c.person.principal) for c in item.contributions}
        for reviewer in model.reviewers:
            who = f"user:{state.tenant_id}/{state.oid(reviewer.who)}"
            if reviewer.vote:
                assert (Role.APPROVED if reviewer.vote > 0 else Role.REVIEWED, who) in roles
        for number in model.work_items:
            assert f"ctx://ado/{(state.organization or '').lower()}/work-items/{number}" in {x.to for x in item.links}
        checked += 1
    assert checked > 0


def test_a_dashboard_is_told_panel_by_panel_with_a_name_for_each(server: SandboxServer, crawled: Store) -> None:
    boards = [i for i in crawled.items.values() if "dashboard" in i.attributes]
    assert boards
    for item in boards:
        names = [a for a in item.aliases if a.startswith("grafana:")]
        assert len(names) > 1
        assert any("```sql" in p.text for p in item.parts)
        assert item.attributes["sql_names"]
    views = {a for i in crawled.items.values() for a in i.aliases if a.startswith("sql:")}
    assert any(f"sql:{n}" in views for b in boards for n in b.attributes["sql_names"].split(","))


def test_labels_come_from_the_nearest_container(server: SandboxServer, crawled: Store) -> None:
    state = server.state
    for ref in item_refs(state, ["work_item", "file", "page"]):
        item = crawled.items.get(target(state, str(ref)).uri or "")
        if item is None:
            continue
        if ref.kind == "work_item":
            project, own = state.lookup.work_items[int(ref.parts[0])]
            chain = [own.label, state.lookup.projects[project].label]
        elif ref.kind == "file":
            project, repo = state.lookup.repos[ref.parts[0]]
            chain = [repo.label, state.lookup.projects[project].label]
        else:
            project, wiki = state.lookup.wikis[ref.parts[0]]
            page = state.lookup.pages[ref.parts[0]][ref.parts[1]][1]
            repo_label = state.lookup.repos[state.code_repo(wiki)][1].label if wiki.kind == "code" else None
            chain = [page.label, repo_label, state.lookup.projects[project].label]
        assert item.label == next((x for x in chain if x), None), str(ref)


def test_every_reader_lists_as_present_what_it_has_read(server: SandboxServer, crawled: Store) -> None:
    from tests.ingestion.azure_devops.support import connect

    connector = connect(server)
    for reader in connector.readers():
        for _ in reader.read(crawled.checkpoints[reader.name]):
            pass
        mine = {u for u, i in crawled.items.items() if i.source is reader.source}
        assert mine <= set(reader.present() or ())
    assert {i.source for i in crawled.items.values()} == {s for s in Source if s is not Source.TEAMS}
    connector.close()
