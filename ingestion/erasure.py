"""What is left of an item when somebody was erased: what they said is gone, what they wrote stays without them."""

from __future__ import annotations

from dataclasses import replace

from core.erased import MARK, ErasedPeople
from core.items import Contribution, Item, ItemKind, Part, PersonRef


def without(item: Item, people: ErasedPeople) -> Item | None:
    """The item without erased people; the same one where it names none of them, None where nothing is left of it.

    Messages, replies and comments by them are dropped. A document of theirs (page, file, description, commit) stays
    without an author. In every text that is kept, what they are called is replaced. Addresses of items and of web pages
    stay as they are, since they are how a thing is found.
    """
    if not people:
        return item
    kept = tuple(_part(p, people) for p in item.parts if not (_is_said(p, item) and people.is_meant(p.author)))
    dropped = [p for p in item.parts if _is_said(p, item) and people.is_meant(p.author)]
    if dropped and not kept and item.kind is ItemKind.THREAD:
        return None
    attributes = {key: people.masked(value) for key, value in item.attributes.items()}
    left = replace(
        item,
        title=MARK if _is_theirs(item, dropped) else people.masked(item.title),
        author=_person(item.author, people),
        owner=_person(item.owner, people),
        container=people.masked(item.container),
        parts=kept,
        contributions=tuple(_contribution(c, people) for c in item.contributions if not people.is_meant(c.person)),
        aliases=tuple(a for a in item.aliases if people.masked(a) == a),
        replaced_by=tuple(x if "://" in x else people.masked(x) for x in item.replaced_by),
        attributes=attributes if attributes != dict(item.attributes) else item.attributes,
    )
    return left if left != item else item


def _is_said(part: Part, item: Item) -> bool:
    """Whether a part is somebody's own word in a talk, and not a piece of a document."""
    talk = item.kind is ItemKind.THREAD or (item.kind is ItemKind.PULL_REQUEST and bool(part.heading))
    return talk or part.uri != item.uri


def _is_theirs(item: Item, dropped: list[Part]) -> bool:
    """Whether a thread is called by words that were dropped: a subject is its opener's, else it is a first line."""
    if item.kind is not ItemKind.THREAD:
        return False
    title = _bare(item.title.removesuffix("…"))
    return any(part.uri == item.uri or title in _bare(part.text) for part in dropped)


def _bare(text: str) -> str:
    return "".join(c for c in text.casefold() if c.isalnum())


def _part(part: Part, people: ErasedPeople) -> Part:
    return replace(
        part,
        text=people.masked(part.text),
        heading=tuple(people.masked(h) for h in part.heading),
        author=_person(part.author, people),
    )


def _contribution(contribution: Contribution, people: ErasedPeople) -> Contribution:
    person = contribution.person
    shown = PersonRef(people.masked(person.name), None) if person.principal is None else person
    return replace(contribution, person=shown, note=people.masked(contribution.note))


def _person(ref: PersonRef | None, people: ErasedPeople) -> PersonRef | None:
    if ref is None or people.is_meant(ref):
        return None
    return ref if ref.principal is not None else PersonRef(people.masked(ref.name))
