"""Random changes of what is read: work items and comments, pages, files, pushes, pull requests."""

from __future__ import annotations

from typing import Any

from fixtures.sandbox import state_additions as add
from fixtures.sandbox import world_models as m
from fixtures.sandbox.refs import Ref
from tests.support.chance import Chance, Nothing

# --- work items


def new_item(c: Chance) -> str:
    project = c.project()
    number = max(c.state.lookup.work_items, default=0) + c.random.choice((1, 1, 3))
    links = [m.Link(rel="related", to=f"work_item:{c.work_item()}")] if c.random.random() < 0.3 else []
    item = m.WorkItem(
        id=number,
        type=c.random.choice(("Task", "Bug", "User Story")),
        title=c.words(),
        area=c.area(project),
        created=m.Stamp(by=c.person(), at=c.state.now),
        description=c.text(),
        format=c.random.choice(("html", "markdown")),
        tags=c.random.choice(([], ["pay"], ["pay", "new"])),
        links=links,
    )
    add.add_work_item(c.state, project, item)
    return f"{number} in {project}"


def edit_item(c: Chance) -> str:
    number = c.work_item()
    fields: dict[str, Any] = c.random.choice(
        (
            {"title": c.words()},
            {"description": c.text()},
            {"state": c.random.choice(("New", "Active", "Closed"))},
            {"tags": c.random.choice(("", "pay; urgent", "card"))},
            {"assigned": c.person()},
            {"Custom.Risk": c.words(1)},
        )
    )
    return c.happen(edit={"item": f"work_item:{number}", "by": c.person(), "fields": fields})


def move_item(c: Chance) -> str:
    number, project = c.work_item(), c.project()
    area = c.area(project)
    return c.happen(move={"item": f"work_item:{number}", "to": f"area:{project}{'' if area == '/' else area}"})


def comment(c: Chance) -> str:
    number = c.work_item()
    add.add_comment(c.state, number, c.person(), c.text())
    return str(number)


def one_comment(c: Chance, *, deleted: bool) -> str:
    number = c.work_item()
    found = [n for n, _ in c.state.comments(number, deleted=True)]
    gone = [n for n in found if c.state.is_deleted(Ref("comment", (str(number), str(n))))]
    return f"comment:{number}/{c.pick(gone if deleted else set(found) - set(gone))}"


def destroy(c: Chance) -> str:
    number = c.work_item(deleted=c.random.random() < 0.7)
    add.destroy_work_item(c.state, number)
    return str(number)


# --- pages and files


def new_page(c: Chance) -> str:
    wiki = c.wiki()
    pages = [p.path for p in c.state.pages(wiki)]
    below = f"{c.pick(pages)}/" if pages and c.random.random() < 0.4 else ""
    path = f"{below}{c.name()}"
    add.add_page(c.state, wiki, path, c.person(), c.text())
    return f"{wiki}/{path}"


def edit_page(c: Chance) -> str:
    wiki, key = c.page()
    return c.happen(edit={"item": f"wiki:{wiki}/{key}", "by": c.person(), "content": c.text()})


def move_page(c: Chance) -> str:
    wiki, key = c.page()
    return c.happen(move={"item": f"wiki:{wiki}/{key}", "to": f"wiki:{wiki}/{c.name()}"})


def restore_page(c: Chance) -> str:
    wiki, key = c.page(deleted=True)
    return c.happen(restore={"item": f"wiki:{wiki}/{key}"})


def swap_pages(c: Chance) -> str:
    """A page takes the path that another had a moment ago."""
    wiki, key = c.page()
    path = c.state.page_path_now(wiki, key)
    c.happen(move={"item": f"wiki:{wiki}/{key}", "to": f"wiki:{wiki}/{c.name()}"})
    other = c.pick(p.key for p in c.state.pages(wiki) if not path.startswith(p.path + "/"))
    return c.happen(move={"item": f"wiki:{wiki}/{other}", "to": f"wiki:{wiki}/{path}"}) + f" after {key}"


def push(c: Chance) -> str:
    repo = c.repo()
    branch = c.random.choice((None, None, None, "topic", "side"))
    paths = sorted(c.state.git(repo).files(branch)) if branch in c.state.git(repo).branches() else []
    paths = paths or sorted(c.state.files(repo))
    files: add.Files = {}
    for _ in range(c.random.choice((1, 1, 2, 4))):
        if paths and c.random.random() < 0.5:
            path = c.random.choice(paths)
            if path.startswith("docs/"):
                continue
            files[path] = None if c.random.random() < 0.2 else f"# {c.words()}\n"
        else:
            folder = c.random.choice(("", "src/", "a/b/"))
            ending = c.random.choice((".py", ".md", ".sql", ".bin", ".json"))
            body: str | bytes = b"\0\1" if ending == ".bin" else f"# {c.words()}\nx = {c.random.randrange(10**6)}\n"
            files[f"{folder}{c.words(1)}{c.random.randrange(4)}{ending}"] = body
    if not files:
        raise Nothing
    add.push(c.state, repo, files, by=c.person(), message=c.text(), branch=branch)
    return f"{repo} {branch} {sorted(files)}"


def edit_file(c: Chance) -> str:
    repo, path = c.file()
    return c.happen(edit={"item": f"file:{repo}/{path}", "by": c.person(), "content": f"# {c.words(6)}\n"})


def move_file(c: Chance) -> str:
    repo, path = c.file()
    now = c.state.file_path_now(repo, path)
    to = f"moved/{c.random.randrange(100)}/{now.rpartition('/')[2]}"
    return c.happen(move={"item": f"file:{repo}/{path}", "to": f"file:{repo}/{to}"})


def delete_file(c: Chance) -> str:
    repo, path = c.file()
    return c.happen(delete={"item": f"file:{repo}/{path}"})


def reset(c: Chance) -> str:
    repo, back, forget = c.repo(plain=True), c.random.choice((1, 1, 2)), c.random.random() < 0.5
    add.reset_branch(c.state, repo, back, forget=forget)
    return f"{repo} {back} {forget}"


def default_branch(c: Chance) -> str:
    repo = c.repo(plain=True)
    branch = c.pick(set(c.state.git(repo).branches()) - {c.state.git(repo).default_branch})
    add.set_default_branch(c.state, repo, branch)
    return f"{repo} {branch}"


# --- pull requests


def new_pull(c: Chance) -> str:
    repo = c.repo()
    number = max(c.state.lookup.pull_requests[repo], default=0) + 1
    branch = c.random.choice([*c.state.git(repo).branches(), "gone"])
    pull = m.PullRequest(
        id=number,
        title=c.words(),
        description=c.text(),
        created=m.Stamp(by=c.person(), at=c.state.now),
        source=branch if branch != c.state.git(repo).default_branch else "gone",
    )
    add.add_pull_request(c.state, repo, pull)
    return f"{repo} {number}"


def edit_pull(c: Chance) -> str:
    repo, number = c.pull()
    fields: dict[str, Any] = c.random.choice(({"title": c.words()}, {"description": c.text()}, {"status": "abandoned"}))
    return c.happen(edit={"item": f"pr:{repo}/{number}", "by": c.person(), "fields": fields})


def discuss(c: Chance) -> str:
    repo, number = c.pull(active=True)
    add.comment_on(c.state, repo, number, c.person(), c.text(), c.random.choice((None, "a.py")))
    return f"{repo} {number}"


def vote(c: Chance) -> str:
    repo, number = c.pull()
    add.vote(c.state, repo, number, c.person(), c.random.choice((10, 5, 0, -5, -10)))
    return f"{repo} {number}"


def complete(c: Chance) -> str:
    repo, number = c.pull(active=True)
    add.complete(c.state, repo, number, c.person())
    return f"{repo} {number}"
