"""The port of a source connector: small readers that yield changes and the checkpoint that covers them.

A connector is a set of readers over one client. A reader is resumable: it is handed its last committed checkpoint and
yields batches; the sync commits a batch's changes and then its checkpoint, so a kill between any two loses and doubles
nothing. An item that can't be read is a Failure, never an exception; an exception ends the reader's run, and what came
before it is kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from core.access import Scope, ScopeId
from core.directory import Container as Container
from core.directory import DirectoryPerson as DirectoryPerson
from core.directory import PersonKind as PersonKind
from core.items import Item, Source


@dataclass(frozen=True, slots=True)
class ItemUpserted:
    """An item as the source has it now."""

    item: Item


@dataclass(frozen=True, slots=True)
class ItemDeleted:
    """The source says that the item is gone.

    `stated` False: it was concluded from two states that were read whole (a file that the tree has no longer); then
    being read again brings it back whatever its version, as after a branch was set back.
    """

    uri: str
    at: datetime | None = None
    stated: bool = True


@dataclass(frozen=True, slots=True)
class ItemMissing:
    """A list of the source that came whole no longer has the item, and nothing says that it was deleted: it is
    withheld at once, and deleted when a later run misses it too."""

    uri: str


@dataclass(frozen=True, slots=True)
class Failure:
    """An item or scope that could not be read. `hide`: until it can be, nobody sees it (missing or unreadable)."""

    uri: str
    reason: str
    hide: bool = False


@dataclass(frozen=True, slots=True)
class Skipped:
    """An item that is left out on purpose (binary, too large, unknown encoding), with the reason; it is counted."""

    uri: str
    reason: str


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A whole wiki, repo or the like that the source no longer shows us: what it held is withheld until it does."""

    where: str


Change = ItemUpserted | ItemDeleted | ItemMissing | Failure | Skipped | Unreadable


@dataclass(frozen=True, slots=True)
class Unlisted:
    """Part of a source could not be listed: no item whose address begins with `prefix` is taken as gone.

    `withhold`: the source refuses us the whole of it (or has switched it off), so until it is listed again its items
    are shown to nobody, and none of them is deleted however long that takes.
    """

    prefix: str
    reason: str
    withhold: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessSnapshot:
    """Everything that decides access in one source, read in one pass, before any content.

    `complete` False: some list broke off, so what is missing must not be taken as gone (nothing is pruned).
    `every_scope`: all scopes were listed with their rules, those as nobody's whose rules the source refuses to tell,
    though members of some container could not be read: these have an age of their own (`Container.members` None). It
    shuts no scope that does not hang on them.
    `memberships_only`: it tells who belongs to what and says nothing of scopes; what is known of these stays.
    `whole`: kinds of containers (and `people`) that were listed to their end whatever became of the rest: one that is
    not listed is gone. None: everything where it is `complete`, or the kinds listed where it is of memberships only.
    `unknown_principals` counts ACL entries of a kind we don't understand: they name nobody.
    """

    source: str
    people: tuple[DirectoryPerson, ...] = ()
    containers: tuple[Container, ...] = ()
    scopes: tuple[Scope, ...] = ()
    complete: bool = True
    every_scope: bool = False
    memberships_only: bool = False
    whole: frozenset[str] | None = None
    unknown_principals: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Changes, and the checkpoint that covers them and everything before. `progress` is (done, total or None).

    `resumed` False: the feed of a part of the source was lost and that part was read from its beginning, so what
    vanished there meanwhile left no word: whole lists are compared after this read.
    """

    changes: tuple[Change, ...]
    checkpoint: Mapping[str, Any]
    progress: tuple[int, int | None] = (0, None)
    resumed: bool = True


class Reader(Protocol):
    """Reads one kind of item of one source."""

    @property
    def name(self) -> str:
        """Unique in its connector; the key of its checkpoint (e.g. `work_items`)."""
        ...

    @property
    def source(self) -> Source:
        """The source that its items belong to."""
        ...

    def read(self, checkpoint: Mapping[str, Any] | None) -> Iterator[Batch]:
        """Yield batches of changes since `checkpoint` (None: from the beginning).

        Raises SourceError where the run can't go on; SourceGoneError where the checkpoint is no longer valid
        (the sync then starts this reader again from None and reconciles).
        """
        ...

    def fetch(self, uris: Sequence[str]) -> Iterator[Change]:
        """Read these items again, as they are now (a retry of what failed, or a webhook's hint). An address that is
        not of this reader is passed over. Raises SourceError where the source as a whole does not answer."""
        ...

    def present(self) -> Iterator[str | Unlisted] | None:
        """Addresses of all items that the source has now, for reconciliation, and what could not be listed; None
        where a full list is no cheaper than a full read (the sync then uses a full read's upserts). Raises SourceError
        where the list as a whole breaks off: a list that broke off deletes nothing."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """The six answers without which a source type can't be enabled; each is a sentence."""

    acl_export: str
    change_and_deletion_feed: str
    stable_ids_and_urls: str
    timestamps: str
    authors: str
    demo_question: str


class Connector(Protocol):
    """One source system (Azure DevOps, Teams)."""

    @property
    def name(self) -> str:
        """`azure_devops` or `teams`; the key of its access snapshot."""
        ...

    @property
    def admission(self) -> Admission:
        """The answers to the six admission questions."""
        ...

    def access(self) -> AccessSnapshot:
        """Read people, containers and scopes. Raises SourceError where not even a partial picture could be had."""
        ...

    def memberships(self) -> AccessSnapshot:
        """Read people and containers only (`memberships_only`): what changes most often, and is cheapest to read.
        Raises SourceError as `access` does."""
        ...

    def access_of(self, places: Sequence[str]) -> AccessSnapshot | None:
        """Read again who may read these places (addresses that a hint names), as a snapshot that is not `complete`
        and leaves everything else as it is; None where the whole has to be read. Raises SourceError."""
        ...

    def readers(self) -> tuple[Reader, ...]:
        """The content readers, in the order in which they should run. They work whether or not `access` was called in
        this process."""
        ...

    def asked(self) -> Mapping[str, int]:
        """What was asked of the source since the connector was made, for the record of a run: `requests`, and what
        else is known of them (`retries`, `throttled` answers, `waited_s`)."""
        ...

    def scope_of(self, uri: str) -> ScopeId | None:
        """The scope of an item if the connector knows it without asking (after `access`), else None."""
        ...

    def close(self) -> None:
        """Release connections."""
        ...
