"""The bundle: what `get_context` returns. These models are the wire contract; OpenAPI comes from them.

`digest` covers everything but ids, times of making and itself: the same index state, asker, question, focus and clock
give the same digest.
"""

from __future__ import annotations

import hashlib
import json
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from core.items import ItemKind, Source

SCHEMA: Literal["context-bundle/1"] = "context-bundle/1"
# What one can look at in one question: each is some look-ups.
MOST_FOCUS: Final = 50


class Intent(StrEnum):
    """What kind of answer is wanted."""

    PROCEDURAL = "procedural"
    DEFINITION = "definition"
    DEICTIC = "deictic"
    HISTORICAL = "historical"
    PERSON = "person"
    SECURITY = "security"
    STATUS = "status"
    GENERAL = "general"


class Temporal(StrEnum):
    """Whether the present or the past is asked about."""

    CURRENT = "current"
    HISTORICAL = "historical"


class WireModel(BaseModel):
    """A part of the contract: no field but its own, and none that changes."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Focus(WireModel):
    """What the asker is looking at. Names of things only: it can't say who asks."""

    url: str | None = Field(default=None, max_length=4096, description="URL of a page, panel, item, file or message")
    file: str | None = Field(default=None, max_length=1024, description="repo/path, with an optional :line")
    channel: str | None = Field(default=None, max_length=512, description="Team/Channel, or a channel's URL or id")
    item: str | None = Field(default=None, max_length=1024, description="ctx:// address of an item")


class ResolvedFocus(WireModel):
    """How one given focus was understood. What does not exist and what may not be read look the same."""

    given: str
    resolved: bool
    uri: str | None = None
    title: str | None = None
    detail: str | None = Field(default=None, description="the panel, line or section meant inside the item")


class Interpretation(WireModel):
    """How the question was understood, so that an agent can see a misreading and ask again."""

    summary: str = Field(description="one readable line")
    intent: Intent
    temporal: Temporal
    as_of: datetime | None = None
    language: str = "en"
    terms: tuple[str, ...] = Field(default=(), description="abbreviations, identifiers and names recognised")
    expansions: tuple[str, ...] = Field(default=(), description="words added to the search, and why")
    focus: tuple[ResolvedFocus, ...] = ()


class AskerInfo(WireModel):
    """Who asked, as the token proved it."""

    principal: str
    name: str
    agent: str | None = None


class SourceReport(WireModel):
    """A source that was asked, how much of it is in the bundle, and when it was last synced."""

    source: Source
    returned: int
    synced_at: datetime | None = None


class Author(WireModel):
    """A person named by evidence."""

    name: str
    principal: str | None = None


class Factors(WireModel):
    """The ranking factors, kept and shown on request: score = relevance × time × authority × proximity."""

    relevance: float
    dense: float
    keyword: float
    time: float
    authority: float
    proximity: float
    score: float


class Evidence(WireModel):
    """One piece of evidence: quoted, attributed, untrusted."""

    ref: str = Field(description="E1, E2 … in this bundle")
    uri: str
    part_uris: tuple[str, ...] = Field(default=(), description="the comments or replies that the snippet holds")
    source: Source
    kind: ItemKind
    title: str
    number: str | None = None
    url: str
    container: str
    heading: tuple[str, ...] = ()
    author: Author | None
    created_at: datetime | None
    modified_at: datetime | None
    validated_at: datetime | None
    label: str | None
    state: str | None
    authority: str
    staleness: str | None = Field(default=None, description="a warning, where there is a reason for one")
    superseded_by: str | None = Field(default=None, description="ctx:// address of what replaces it")
    supersession: str | None = Field(default=None, description="declared, or mined with a confidence")
    via: str | None = Field(default=None, description="how a linked neighbour got here")
    flags: tuple[str, ...] = Field(
        default=(), description="instruction_like: its text speaks to a machine; date_in_future: a time is yet to come"
    )
    trust: Literal["untrusted"] = "untrusted"
    access: tuple[str, ...] = Field(description="the asker's principals through which it may be read")
    snippet: str
    factors: Factors | None = None


class Receipt(WireModel):
    """Why a person is named: something that the asker can read."""

    text: str
    uri: str
    ref: str | None = Field(default=None, description="its place among this bundle's evidence")
    at: datetime | None = None


class Fallback(WireModel):
    """Whom to ask if the first person can't."""

    name: str
    principal: str | None
    why: str


class PersonPointer(WireModel):
    """Somebody who is well placed to be asked."""

    ref: str = Field(description="P1, P2 … in this bundle")
    name: str
    principal: str | None
    title: str | None = None
    department: str | None = None
    active: bool = Field(description="false: they have left")
    confidence: float = Field(ge=0, le=1)
    why: tuple[Receipt, ...]
    last_active: datetime | None
    recency: str = Field(description="in words: 'closed #4711 3 weeks ago'")
    starters: tuple[str, ...] = Field(default=(), description="ways to open the conversation, from the artefacts")
    fallback: Fallback | None = None


class GlossaryMeaning(WireModel):
    """One meaning of a term, with where it is said."""

    ref: str = Field(description="G1, G2 … in this bundle")
    term: str
    meaning: str
    context: str = Field(description="the spaces that use it so")
    sources: tuple[str, ...] = Field(description="ctx:// addresses of items that say so")
    quote: str = Field(description="the words of the first source")
    first_used: datetime | None
    last_used: datetime | None
    yours: bool = Field(description="used so in the asker's own team or work")


class Conflict(WireModel):
    """Two pieces of evidence that may disagree; the engine does not choose."""

    a: str = Field(description="ref of one side")
    b: str = Field(description="ref of the other side")
    a_uri: str
    b_uri: str
    why: str


class Gap(WireModel):
    """A source that returned nothing for this asker and question."""

    source: Source
    note: str


class Pointer(WireModel):
    """Something that was found but did not fit; open it with its address."""

    uri: str
    title: str
    source: Source
    tokens: int


class More(WireModel):
    """What was dropped for size."""

    dropped: int = 0
    items: tuple[Pointer, ...] = ()


class Budget(WireModel):
    """Tokens asked for and used by the bundle's Markdown."""

    max_tokens: int
    used: int


class Bundle(WireModel):
    """Evidence for one question and one asker: never an answer."""

    schema_: Literal["context-bundle/1"] = Field(default=SCHEMA, alias="schema")
    id: str
    made_at: datetime
    question: str
    interpreted_as: Interpretation
    asker: AskerInfo
    now: datetime = Field(description="the present by which ages are judged")
    sources: tuple[SourceReport, ...]
    evidence: tuple[Evidence, ...]
    people: tuple[PersonPointer, ...]
    glossary: tuple[GlossaryMeaning, ...]
    conflicts: tuple[Conflict, ...]
    gaps: tuple[Gap, ...]
    unresolved: tuple[str, ...] = Field(description="what the bundle could not settle")
    more: More
    budget: Budget
    digest: str

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


_VOLATILE = {"id", "made_at", "digest"}


def digest_of(bundle: Bundle) -> str:
    """SHA-256 over the bundle's canonical JSON without ids and times of making."""
    data = bundle.model_dump(mode="json", by_alias=True, exclude=_VOLATILE)
    for report in data["sources"]:
        report.pop("synced_at")
    return hashlib.sha256(json.dumps(data, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


class ContextRequest(WireModel):
    """Body of `POST /v1/context`. There is no way to name an asker in it."""

    question: str = Field(min_length=1, max_length=4000)
    focus: Focus | Annotated[tuple[Focus, ...], Field(max_length=MOST_FOCUS)] | None = None
    max_tokens: int | None = Field(default=None, ge=1, le=200_000)
    as_of: datetime | None = None
    explain: bool = False
