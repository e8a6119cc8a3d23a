"""Items, their parts and chunks: what connectors yield and the index holds.

Four times, four names: `created_at` and `modified_at` are the source's, `validated_at` is when somebody vouched for
the content, `ingested_at` (in the store) is ours.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from core.access import ScopeId
from core.authority import Authority
from core.principals import Principal


class Source(StrEnum):
    """Where evidence lives; the words used in gaps and filters."""

    WORK_ITEMS = "work_items"
    WIKIS = "wikis"
    CODE = "code"
    PULL_REQUESTS = "pull_requests"
    TEAMS = "teams"


class ItemKind(StrEnum):
    """What an item is."""

    WORK_ITEM = "work_item"
    WIKI_PAGE = "wiki_page"
    FILE = "file"
    COMMIT = "commit"
    PULL_REQUEST = "pull_request"
    THREAD = "thread"


class Role(StrEnum):
    """What a person did to an item: the kinds of person-item edges."""

    WROTE = "wrote"
    EDITED = "edited"
    OWNS = "owns"
    VALIDATED = "validated"
    ASSIGNED = "assigned"
    CLOSED = "closed"
    COMMENTED = "commented"
    ANSWERED = "answered"
    MERGED = "merged"
    REVIEWED = "reviewed"
    APPROVED = "approved"
    MENTIONED = "mentioned"
    DECIDED = "decided"


class TextFormat(StrEnum):
    """How a part's text is to be read by the chunker. HTML is turned to Markdown before it gets here."""

    MARKDOWN = "markdown"
    CODE = "code"
    PLAIN = "plain"


@dataclass(frozen=True, slots=True)
class PersonRef:
    """A person as an item names them: `principal` None where the source gives a name only (never matched by name)."""

    name: str
    principal: Principal | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A stretch of an item with an author and time of its own: a description, a comment, a chat message, a file.

    `uri` addresses the part where it can be addressed (comment, reply), else the item. `heading` stands before the
    chunk's own headings. `language` names the programming language for CODE.
    """

    uri: str
    text: str
    format: TextFormat = TextFormat.MARKDOWN
    heading: tuple[str, ...] = ()
    author: PersonRef | None = None
    at: datetime | None = None
    language: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Contribution:
    """A person-item edge: the item itself is its evidence."""

    person: PersonRef
    role: Role
    at: datetime | None
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A link that the item itself states. `to` is a ctx:// address, or a URL where it leads outside."""

    to: str
    rel: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One unit of content with one scope, as the source has it now. `number` is what people call it (4711)."""

    uri: str
    source: Source
    kind: ItemKind
    scope: ScopeId
    title: str
    url: str
    parts: tuple[Part, ...]
    version: str
    created_at: datetime | None
    modified_at: datetime | None
    author: PersonRef | None = None
    validated_at: datetime | None = None
    owner: PersonRef | None = None
    authority: Authority = Authority.OBSERVED
    state: str | None = None
    container: str = ""
    number: str | None = None
    label: str | None = None
    contributions: tuple[Contribution, ...] = ()
    links: tuple[Link, ...] = ()
    # Names by which a focus or a question may point here: dashboard uid/panel, file name, former paths.
    aliases: tuple[str, ...] = ()
    # Declared by the item about itself: "deprecated", and what replaces it (address or title).
    deprecated: bool = False
    replaced_by: tuple[str, ...] = ()
    attributes: Mapping[str, str] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """Changes when anything but the scope does; the same content has the same digest in every run."""
        content = {
            "title": self.title,
            "url": self.url,
            "parts": [(x.uri, x.text, x.format, x.heading, _ref(x.author), _iso(x.at), x.language) for x in self.parts],
            "times": [_iso(self.created_at), _iso(self.modified_at), _iso(self.validated_at)],
            "people": [_ref(self.author), _ref(self.owner)],
            "facts": [self.authority, self.state, self.container, self.number, self.label, self.deprecated],
            "edges": [(_ref(c.person), c.role, _iso(c.at), c.note) for c in self.contributions],
            "links": [(link.to, link.rel) for link in self.links],
            "names": [self.aliases, self.replaced_by, sorted(self.attributes.items())],
        }
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """A piece of an item that fits the embedder's window.

    `embedded_text` (title and heading path before the text) is what is embedded and counted; `text` is what is shown.
    `part_uris` are the parts that it holds, in order.
    """

    uri: str
    ordinal: int
    heading: tuple[str, ...]
    text: str
    embedded_text: str
    part_uris: tuple[str, ...]

    @property
    def digest(self) -> str:
        """Same embedded text, same digest: it is never embedded twice."""
        return hashlib.sha256(self.embedded_text.encode()).hexdigest()


def _iso(at: datetime | None) -> str | None:
    return at.isoformat() if at else None


def _ref(person: PersonRef | None) -> tuple[str, str | None] | None:
    return (person.name, person.principal) if person else None
