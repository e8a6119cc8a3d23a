"""Deliveries of Azure DevOps' service hooks: which items and readers they are hints for. Only ids are read from them.

Facts: Azure DevOps documentation, "Service hook events", "Troubleshoot service hooks". Where `resourceDetailsToSend` is
`minimal`, ids stand in the resource's address only, and a version may not be told at all.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Annotated, Any, Final
from urllib.parse import SplitResult, urlsplit

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from core import uris
from core.hints import Hint, HintKind
from graph.inbox import Arrival
from ingestion.webhooks.outcomes import Outcome, Refused

CONNECTOR: Final = "azure_devops"
# Clocks differ; more than that is no clock's fault, and would outlive what we remember of doubles.
AHEAD: Final = timedelta(minutes=10)
_GUID: Final = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_WORK_ITEM: Final = re.compile(r"/_apis/wit/(?:workitems|recyclebin)/([1-9]\d{0,8})(?:/|$)", re.IGNORECASE)
_REPO: Final = re.compile(rf"/_apis/git/repositories/({_GUID})(?:/|$)", re.IGNORECASE)
_PULL_REQUEST: Final = re.compile(r"/pullrequests/([1-9]\d{0,8})(?:/|$)", re.IGNORECASE)
_COMMENT_ON_PULL_REQUEST: Final = "ms.vss-code.git-pullrequest-comment-event"

Guid = Annotated[str, StringConstraints(pattern=rf"^{_GUID}$")]
Number = Annotated[int, Field(ge=1, lt=2**31, strict=True)]
Ref = Annotated[str, StringConstraints(max_length=1024)]
Url = Annotated[str, StringConstraints(max_length=4096)]


class _Sent(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class _Repository(_Sent):
    id: Guid
    default_branch: Ref | None = Field(default=None, alias="defaultBranch")


class _RefUpdate(_Sent):
    name: Ref


class _PullRequest(_Sent):
    number: Number = Field(alias="pullRequestId")
    repository: _Repository | None = None
    url: Url | None = None


class _Resource(_Sent):
    """Whatever of a resource is used, of all kinds of events."""

    id: Any = None
    rev: Number | None = None
    work_item_id: Number | None = Field(default=None, alias="workItemId")
    url: Url | None = None
    repository: _Repository | None = None
    ref_updates: tuple[_RefUpdate, ...] = Field(default=(), alias="refUpdates", max_length=1000)
    pull_request_id: Number | None = Field(default=None, alias="pullRequestId")
    pull_request: _PullRequest | None = Field(default=None, alias="pullRequest")


class _Container(_Sent):
    base_url: Url | None = Field(default=None, alias="baseUrl")


class _Envelope(_Sent):
    subscription: Guid = Field(alias="subscriptionId")
    notification: Annotated[int, Field(ge=0, lt=2**63, strict=True)] = Field(alias="notificationId")
    event: Annotated[str, StringConstraints(max_length=200)] = Field(alias="eventType")
    publisher: Annotated[str, StringConstraints(max_length=100)] = Field(alias="publisherId")
    created: datetime = Field(alias="createdDate")
    resource: _Resource | None = None
    containers: dict[str, _Container | None] | None = Field(default=None, alias="resourceContainers", max_length=10)


class AzureDevOpsParser:
    """Reads deliveries for one organization (its name) that are no older than `max_age`."""

    def __init__(self, organization: str, *, max_age: timedelta) -> None:
        self._organization = organization
        self._max_age = max_age

    def read(self, body: Mapping[str, Any], now: datetime) -> Arrival:
        """The delivery's hints, none where there is nothing to do. Raises Refused."""
        try:
            sent = _Envelope.model_validate(body)
        except ValidationError as e:
            raise Refused(Outcome.MALFORMED, f"without a usable {_places(e)}") from None
        self._check(sent, now)
        hints = tuple(self._hints(sent.event, sent.resource or _Resource()))
        key = f"{sent.subscription.lower()}/{sent.notification}"
        return Arrival(key=key, hints=hints, occurred_at=sent.created)

    def _check(self, sent: _Envelope, now: datetime) -> None:
        if sent.publisher != "tfs":
            raise Refused(Outcome.UNKNOWN, "another publisher than tfs")
        addresses = [c.base_url for c in (sent.containers or {}).values() if c is not None and c.base_url]
        addresses += [sent.resource.url] if sent.resource is not None and sent.resource.url else []
        if not all(names_organization(url, self._organization) for url in addresses):
            raise Refused(Outcome.WRONG_ORGANIZATION, "from another organization than is read")
        if sent.created.tzinfo is None:
            raise Refused(Outcome.MALFORMED, "createdDate has no zone")
        if now - sent.created > self._max_age:
            raise Refused(Outcome.STALE, "older than max_age")
        if sent.created - now > AHEAD:
            raise Refused(Outcome.STALE, "from the future")

    def _hints(self, event: str, resource: _Resource) -> Iterator[Hint]:
        family, _, what = event.partition(".")
        if family == "workitem" and what in {"created", "updated", "restored", "commented", "deleted"}:
            yield self._work_item(what, resource)
            if what in {"deleted", "restored"}:
                # What it is linked with loses a link or has it back, and no event says so: the feed of links does.
                yield Hint(connector=CONNECTOR, kind=HintKind.READER, reader="work_items")
        elif event == "git.push":
            for reader in _readers(resource):
                yield Hint(connector=CONNECTOR, kind=HintKind.READER, reader=reader)
        elif event in {"git.pullrequest.created", "git.pullrequest.updated", "git.pullrequest.merged"}:
            yield self._pull_request(resource.pull_request_id, resource.repository, resource.url)
        elif event == _COMMENT_ON_PULL_REQUEST:
            told = resource.pull_request
            yield self._pull_request(
                told.number if told else None, told.repository if told else None, told.url if told else None
            )
        else:
            raise Refused(Outcome.UNKNOWN, "an event that nothing is made of")

    def _work_item(self, what: str, resource: _Resource) -> Hint:
        number = resource.work_item_id
        if number is None and resource.url is not None and (found := _WORK_ITEM.search(_parts(resource.url).path)):
            number = int(found.group(1))
        if number is None and what != "updated" and type(resource.id) is int and 0 < resource.id < 2**31:
            number = resource.id  # of an update this would be the update's own number
        if number is None:
            raise Refused(Outcome.MALFORMED, "a work item without its number")
        return Hint(
            connector=CONNECTOR,
            kind=HintKind.ITEM,
            reader="work_items",
            uri=uris.work_item(self._organization, number),
            gone=what == "deleted",
            version=str(resource.rev) if resource.rev is not None else None,
        )

    def _pull_request(self, number: int | None, repository: _Repository | None, url: str | None) -> Hint:
        path = _parts(url).path if url else ""
        repo = repository.id if repository is not None else None
        if repo is None and (found := _REPO.search(path)):
            repo = found.group(1)
        if number is None and (found := _PULL_REQUEST.search(path)):
            number = int(found.group(1))
        if repo is None or number is None:
            # It is not told which one; the reader compares the whole list.
            return Hint(connector=CONNECTOR, kind=HintKind.READER, reader="pull_requests")
        uri = uris.pull_request(self._organization, repo, number)
        return Hint(connector=CONNECTOR, kind=HintKind.ITEM, reader="pull_requests", uri=uri)


def names_organization(url: str, organization: str) -> bool:
    """Whether an address of Azure DevOps is within this organization: by the first part of its path, by the host's
    name in the old form, or, on a server of one's own, by any part of its path. Raises Refused for what is none."""
    parts = _parts(url)
    host, wanted = (parts.hostname or "").lower(), organization.lower()
    path = [p.lower() for p in parts.path.split("/") if p]
    if host.endswith(".visualstudio.com"):
        return host.split(".")[0] == wanted
    if host == "dev.azure.com":
        return path[:1] == [wanted]
    return wanted in path


def _parts(url: str) -> SplitResult:
    """An address in its parts. Raises Refused for what is none."""
    try:
        return urlsplit(url)
    except ValueError:
        raise Refused(Outcome.MALFORMED, "an address that is none") from None


def _readers(push: _Resource) -> tuple[str, ...]:
    """What a push may have changed: the default branch is code, another may be of a pull request, a wiki be on any."""
    branches = [u.name for u in push.ref_updates if u.name.startswith("refs/heads/")]
    if push.ref_updates and not branches:
        return ()  # tags only
    default = push.repository.default_branch if push.repository is not None else None
    if not branches or default is None:
        return ("code", "wikis", "pull_requests")
    code = ("code",) if default in branches else ()
    others = ("pull_requests",) if any(b != default for b in branches) else ()
    return (*code, "wikis", *others)


def _places(error: ValidationError) -> str:
    """Where it is wrong, by our own names of fields; nothing of what was sent."""
    known = {f.alias or n for m in (_Envelope, _Resource, _PullRequest, _Repository) for n, f in m.model_fields.items()}
    return ", ".join(sorted({str(p) for e in error.errors() for p in e["loc"] if p in known})) or "body"
