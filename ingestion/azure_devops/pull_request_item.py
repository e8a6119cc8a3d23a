"""Turns one pull request as the service gives it, with threads, commits, files and work items, into an Item."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from core import uris
from core.items import Contribution, Item, ItemKind, Link, Part, PersonRef, Role, Source
from core.text.markdown import clean_markdown
from ingestion.azure_devops import authority
from ingestion.azure_devops.catalogue import Catalogue, Repo
from ingestion.azure_devops.identities import Identities
from ingestion.azure_devops.links import merged, stated_links
from ingestion.azure_devops.shapes import mapping, mentioned, text_of, web, when

MAX_COMMITS = 100
MAX_FILES = 100


def pull_request_item(
    data: Mapping[str, Any],
    *,
    threads: Iterable[Mapping[str, Any]],
    work_items: Iterable[int],
    commits: Iterable[str],
    files: Iterable[str],
    repo: Repo,
    catalogue: Catalogue,
    identities: Identities,
    organization: str,
) -> Item:
    """`data` is the document of one pull request, since lists cut its description.

    Raises KeyError or ValueError where the answer lacks what every pull request has.
    """
    number = int(data["pullRequestId"])
    uri = uris.pull_request(catalogue.organization, repo.id, number)
    status = str(data.get("status") or "").lower()
    author = identities.person(data.get("createdBy"))
    created, closed = when(data.get("creationDate")), when(data.get("closedDate"))
    talk = [thread for thread in threads if thread]
    said = [part for thread in talk for part in _thread(thread, uri, identities)]
    said.sort(key=lambda p: p.at.timestamp() if p.at else 0.0)
    modified = max((t for t in (created, closed, *(p.at for p in said)) if t is not None), default=None)
    description = clean_markdown(text_of(data.get("description"))).strip()
    opening = (Part(uri=uri, text=description, author=author, at=created),) if description else ()
    merge = str(mapping(data.get("lastMergeCommit")).get("commitId") or "").lower()
    links = merged(
        tuple(Link(to=uris.work_item(catalogue.organization, n), rel="work_item") for n in work_items),
        # A squashed merge is the one commit of it that stays.
        (Link(to=uris.commit(catalogue.organization, repo.id, merge), rel="merge_commit"),)
        if merge and status == "completed"
        else (),
        tuple(Link(to=uris.commit(catalogue.organization, repo.id, sha), rel="commit") for sha in commits),
        stated_links("\n".join([description, *(p.text for p in said)]), catalogue),
        tuple(Link(to=uris.file(catalogue.organization, repo.id, path), rel="touches") for path in files),
        own=uri,
    )
    attributes = {
        "project": repo.project.name,
        "repo": repo.name,
        "source_branch": str(data.get("sourceRefName") or "").removeprefix("refs/heads/"),
        "target_branch": str(data.get("targetRefName") or "").removeprefix("refs/heads/"),
        "labels": "; ".join(labels_of(data)),
        "draft": "yes" if data.get("isDraft") else "",
    }
    return Item(
        uri=uri,
        source=Source.PULL_REQUESTS,
        kind=ItemKind.PULL_REQUEST,
        scope=catalogue.repo_scope(repo.id),
        title=text_of(data.get("title")).strip(),
        url=web(organization, repo.project.name, "_git", repo.name, "pullrequest", str(number)),
        parts=(*opening, *said),
        version=modified.isoformat() if modified else status,
        created_at=created,
        modified_at=modified,
        author=author,
        authority=authority.of_pull_request(status),
        state=status or None,
        container=repo.name,
        number=str(number),
        label=data.get("sensitivityLabel") or repo.label,
        contributions=(
            *_contributions(data, talk, said, identities),
            *identities.mentions(key for text in (description, *(p.text for p in said)) for key in mentioned(text)),
        ),
        links=links,
        aliases=(f"!{number}",),
        attributes={key: value for key, value in attributes.items() if value},
    )


def labels_of(data: Mapping[str, Any]) -> list[str]:
    """The labels that a pull request bears now."""
    rows = [mapping(row) for row in data.get("labels") or []]
    return [text_of(row.get("name")) for row in rows if row.get("name") and row.get("active", True)]


def touched(changes: Sequence[Mapping[str, Any]]) -> list[str]:
    """Paths of the files that a list of changes leaves behind, each once, in order, at most `MAX_FILES`."""
    found: dict[str, None] = {}
    for change in changes:
        item = mapping(change.get("item"))
        kinds = {k.strip().lower() for k in str(change.get("changeType", "")).split(",")}
        if item.get("path") and not item.get("isFolder") and "delete" not in kinds:
            found[str(item["path"])] = None
    return list(found)[:MAX_FILES]


def _thread(thread: Mapping[str, Any], uri: str, identities: Identities) -> Iterator[Part]:
    """What people said in a thread, in order, under the file and line that it is about."""
    if thread.get("isDeleted"):
        return
    context = mapping(thread.get("threadContext"))
    where = str(context.get("filePath") or "")
    line = mapping(context.get("rightFileStart") or context.get("leftFileStart")).get("line")
    if where and line:
        where = f"{where}:{line}"
    status = str(thread.get("status") or "")
    heading = " ".join(x for x in (where or "Discussion", f"({status})" if status else "") if x)
    for comment in thread.get("comments") or []:
        text = clean_markdown(text_of(comment.get("content"))).strip()
        kind = str(comment.get("commentType") or "text").lower()
        if comment.get("isDeleted") or kind in ("system", "codechange") or not text:
            continue
        yield Part(
            uri=uri,
            text=text,
            heading=(heading,),
            author=identities.person(comment.get("author")),
            at=when(comment.get("publishedDate")),
        )


def _contributions(
    data: Mapping[str, Any], threads: Iterable[Mapping[str, Any]], said: list[Part], identities: Identities
) -> tuple[Contribution, ...]:
    author = identities.person(data.get("createdBy"))
    created, closed = when(data.get("creationDate")), when(data.get("closedDate"))
    found = [Contribution(person=author, role=Role.WROTE, at=created)] if author else []
    merger = identities.person(data.get("closedBy"))
    if merger is not None and str(data.get("status")).lower() == "completed":
        found.append(Contribution(person=merger, role=Role.MERGED, at=closed))
    voted = _vote_times(threads)
    for reviewer in data.get("reviewers") or []:
        vote = int(reviewer.get("vote") or 0)
        # A group's vote is its members', who stand in the list themselves.
        person = None if reviewer.get("isContainer") or vote == 0 else identities.person(reviewer)
        if person is not None:
            role = Role.APPROVED if vote > 0 else Role.REVIEWED
            at = voted.get(str(reviewer.get("id"))) or closed or created
            found.append(Contribution(person=person, role=role, at=at, note=f"vote {vote}"))
    latest: dict[tuple[str, str | None], tuple[PersonRef, datetime | None]] = {}
    for part in said:
        if part.author is not None:
            latest[part.author.name, part.author.principal] = part.author, part.at
    found += [Contribution(person=person, role=Role.COMMENTED, at=at) for person, at in latest.values()]
    return tuple(found)


def _vote_times(threads: Iterable[Mapping[str, Any]]) -> dict[str, datetime]:
    """When each reviewer voted last: the service notes votes in threads of its own, which nobody wrote."""
    found: dict[str, datetime] = {}
    for thread in threads:
        properties = mapping(thread.get("properties"))
        if mapping(properties.get("CodeReviewThreadType")).get("$value") != "VoteUpdate":
            continue
        for comment in thread.get("comments") or []:
            who, at = str(mapping(comment.get("author")).get("id")), when(comment.get("publishedDate"))
            if at is not None and (who not in found or found[who] < at):
                found[who] = at
    return found
