"""What the operations beside `get_context` return: one item, people, meanings, ages, and errors. As much of the
contract as the models of `core.bundle`."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from core.bundle import AskerInfo, Author, GlossaryMeaning, Interpretation, PersonPointer, WireModel
from core.items import ItemKind, Source


class ItemView(WireModel):
    """Body of `GET /v1/items`: one item in full."""

    uri: str
    source: Source
    kind: ItemKind
    title: str
    number: str | None
    url: str
    container: str
    author: Author | None
    created_at: datetime | None
    modified_at: datetime | None
    validated_at: datetime | None
    label: str | None
    state: str | None
    authority: str
    superseded_by: str | None
    links: tuple[str, ...] = Field(description="addresses of linked items that the asker may read, and URLs outside")
    trust: Literal["untrusted"] = "untrusted"
    text: str


class PeopleView(WireModel):
    """Who is well placed to be asked about a topic, with receipts that the asker can read."""

    topic: str
    interpreted_as: Interpretation
    asker: AskerInfo
    now: datetime
    people: tuple[PersonPointer, ...]
    unresolved: tuple[str, ...]
    digest: str = Field(description="that of the bundle that this is a part of")


class DefinitionsView(WireModel):
    """What a term means to this asker, with where it is said."""

    term: str
    interpreted_as: Interpretation
    asker: AskerInfo
    now: datetime
    meanings: tuple[GlossaryMeaning, ...]
    unresolved: tuple[str, ...]
    digest: str = Field(description="that of the bundle that this is a part of")


class SourceStatus(WireModel):
    """How fresh what is known of one reader or source of permissions is. Durations in seconds; null: never read."""

    name: str
    age: float | None
    fresh: bool


class StatusView(WireModel):
    """For administrators: the ages of content and permissions. Counts nothing that an asker may not read."""

    sources: tuple[SourceStatus, ...]
    permissions: tuple[SourceStatus, ...]


class Problem(BaseModel):
    """An error as problem+json (RFC 9457)."""

    model_config = ConfigDict(extra="allow", frozen=True)

    type: str = Field(description="urn:context-engine:problem:NAME; what programs branch on")
    title: str
    status: int
    detail: str | None = Field(default=None, description="how to put it right")
