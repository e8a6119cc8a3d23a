"""Items as JSON in the record, and back, losing nothing but what Postgres can't hold (U+0000)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from core.access import ScopeId
from core.authority import Authority
from core.items import Contribution, Item, ItemKind, Link, Part, PersonRef, Role, Source, TextFormat
from core.principals import Principal
from graph.db import clean_json


def encode(item: Item) -> dict[str, Any]:
    """Plain data for a JSONB column. Its scope is not in it: that is a column, and changes alone."""
    data = {
        "uri": item.uri,
        "source": item.source.value,
        "kind": item.kind.value,
        "title": item.title,
        "url": item.url,
        "parts": [
            {
                "uri": x.uri,
                "text": x.text,
                "format": x.format.value,
                "heading": list(x.heading),
                "author": _person(x.author),
                "at": _time(x.at),
                "language": x.language,
            }
            for x in item.parts
        ],
        "version": item.version,
        "created_at": _time(item.created_at),
        "modified_at": _time(item.modified_at),
        "author": _person(item.author),
        "validated_at": _time(item.validated_at),
        "owner": _person(item.owner),
        "authority": item.authority.value,
        "state": item.state,
        "container": item.container,
        "number": item.number,
        "label": item.label,
        "contributions": [
            {"person": _person(x.person), "role": x.role.value, "at": _time(x.at), "note": x.note}
            for x in item.contributions
        ],
        "links": [[x.to, x.rel] for x in item.links],
        "aliases": list(item.aliases),
        "deprecated": item.deprecated,
        "replaced_by": list(item.replaced_by),
        "attributes": dict(item.attributes),
    }
    cleaned: dict[str, Any] = clean_json(data)
    return cleaned


def decode(data: Mapping[str, Any], scope: ScopeId) -> Item:
    """The item that `encode` wrote, hanging on `scope`."""
    return Item(
        uri=data["uri"],
        source=Source(data["source"]),
        kind=ItemKind(data["kind"]),
        scope=scope,
        title=data["title"],
        url=data["url"],
        parts=tuple(
            Part(
                uri=x["uri"],
                text=x["text"],
                format=TextFormat(x["format"]),
                heading=tuple(x["heading"]),
                author=_ref(x["author"]),
                at=_moment(x["at"]),
                language=x["language"],
            )
            for x in data["parts"]
        ),
        version=data["version"],
        created_at=_moment(data["created_at"]),
        modified_at=_moment(data["modified_at"]),
        author=_ref(data["author"]),
        validated_at=_moment(data["validated_at"]),
        owner=_ref(data["owner"]),
        authority=Authority(data["authority"]),
        state=data["state"],
        container=data["container"],
        number=data["number"],
        label=data["label"],
        contributions=tuple(
            Contribution(
                person=_ref(x["person"]) or PersonRef(""), role=Role(x["role"]), at=_moment(x["at"]), note=x["note"]
            )
            for x in data["contributions"]
        ),
        links=tuple(Link(to=to, rel=rel) for to, rel in data["links"]),
        aliases=tuple(data["aliases"]),
        deprecated=data["deprecated"],
        replaced_by=tuple(data["replaced_by"]),
        attributes=data["attributes"],
    )


def person(name: str | None, principal: str | None) -> PersonRef | None:
    """A person from two columns."""
    return None if name is None else PersonRef(name, Principal(principal) if principal else None)


def _person(ref: PersonRef | None) -> list[str | None] | None:
    return [ref.name, ref.principal] if ref else None


def _ref(data: list[str | None] | None) -> PersonRef | None:
    return person(data[0], data[1]) if data else None


def _time(at: datetime | None) -> str | None:
    return at.isoformat() if at else None


def _moment(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
