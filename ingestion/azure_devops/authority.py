"""How binding each kind of item is, on one table: from who owns and approved it, never from recency or rank."""

from __future__ import annotations

from core.authority import Authority

# What                                   level
_TABLE = {
    "work_item": Authority.OBSERVED,
    "wiki_owned_and_reviewed": Authority.CANONICAL,
    "wiki_owned_or_reviewed": Authority.APPROVED,
    "wiki_plain": Authority.REFERENCE,
    "wiki_deprecated": Authority.HISTORICAL,
    "file_at_head": Authority.CANONICAL,
    "commit": Authority.OBSERVED,
    "pull_request_completed": Authority.APPROVED,
    "pull_request_active": Authority.OBSERVED,
    "pull_request_abandoned": Authority.HISTORICAL,
}


def of_work_item() -> Authority:
    """A work item says what was reported or agreed by whoever wrote it."""
    return _TABLE["work_item"]


def of_wiki_page(*, owned: bool, reviewed: bool, deprecated: bool) -> Authority:
    """A page counts by whether somebody answers for it and has vouched for it."""
    if deprecated:
        return _TABLE["wiki_deprecated"]
    if owned and reviewed:
        return _TABLE["wiki_owned_and_reviewed"]
    return _TABLE["wiki_owned_or_reviewed" if owned or reviewed else "wiki_plain"]


def of_file() -> Authority:
    """What the default branch holds is what runs."""
    return _TABLE["file_at_head"]


def of_commit() -> Authority:
    """A commit says what was done once."""
    return _TABLE["commit"]


def of_pull_request(status: str) -> Authority:
    """A merged pull request was approved; an open one is a proposal; an abandoned one is past."""
    return _TABLE.get(f"pull_request_{status}", Authority.OBSERVED)
