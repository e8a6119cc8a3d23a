"""Packs a bundle under its token budget, most valuable first; what size leaves out is counted and can be opened.

Units (meanings, evidence, people) stand in one order and are taken from its front until one does not fit; that one,
if it is evidence, may come in with a shorter quotation. So more budget never removes anything.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from core import render
from core.bundle import (
    AskerInfo,
    Budget,
    Bundle,
    Conflict,
    Evidence,
    Gap,
    GlossaryMeaning,
    Intent,
    Interpretation,
    More,
    PersonPointer,
    Pointer,
    SourceReport,
    digest_of,
)
from core.errors import InputError
from core.items import Source
from core.token_count import count_tokens
from core.tuning import Tuning
from query.conflicts import Disagreement

# The headings that may come on top of what the bare bundle has.
_HEADINGS = "## Meanings\n\n## Evidence\n\n## May disagree\n\n## People to ask\n\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """Everything found, before the budget: lists stand best first, evidence carries its final refs.

    `shorter` gives a shorter quotation of an item by its address, for the last one that fits.
    """

    question: str
    interpretation: Interpretation
    asker: AskerInfo
    now: datetime
    sources: tuple[Source, ...]
    synced_at: Mapping[Source, datetime]
    evidence: tuple[Evidence, ...]
    shorter: Callable[[str], str]
    people: tuple[PersonPointer, ...]
    glossary: tuple[GlossaryMeaning, ...]
    disagreements: tuple[Disagreement, ...]
    gaps: tuple[Gap, ...]
    unresolved: tuple[str, ...]


Unit = Evidence | PersonPointer | GlossaryMeaning


def pack(draft: Draft, max_tokens: int, tuning: Tuning) -> Bundle:
    """Return the bundle whose Markdown has at most `max_tokens` tokens (see core.token_count).

    Raises InputError naming the minimum where not even the header fits.
    """
    base = _bundle(draft, (), (), (), More(dropped=len(draft.evidence)), max_tokens)
    # Everything that stands in every bundle, and the line that counts what was left out.
    fixed = count_tokens(render.render_markdown(base, fence=render.BLANK_FENCE)) + count_tokens(_HEADINGS)
    if max_tokens < fixed:
        raise InputError(
            f"{max_tokens} tokens are too few for this question", where="max_tokens", mend=f"The minimum is {fixed}"
        )
    room = max_tokens - fixed
    evidence: list[Evidence] = []
    people: list[PersonPointer] = []
    glossary: list[GlossaryMeaning] = []
    for unit in _units(draft):
        cost = _cost(unit, draft, evidence)
        if cost > room:
            shorter = _shortened(unit, draft)
            if shorter is None or (cost := _cost(shorter, draft, evidence)) > room:
                break
            evidence.append(shorter)
            room -= cost
            break
        room -= cost
        if isinstance(unit, Evidence):
            evidence.append(unit)
        elif isinstance(unit, PersonPointer):
            people.append(unit)
        else:
            glossary.append(unit)
    more = _more(draft, evidence, room, tuning)
    return _bundle(draft, evidence, _with_refs(people, evidence), glossary, more, max_tokens)


def _units(draft: Draft) -> list[Unit]:
    """All units, most valuable first: the meaning asked for, the best evidence, whom to ask, then the rest."""
    people, evidence, glossary = list(draft.people), list(draft.evidence), list(draft.glossary)
    order: list[Unit] = [*glossary]
    if draft.interpretation.intent is Intent.PERSON:
        return [*order, *people[:1], *evidence[:4], *people[1:], *evidence[4:]]
    return [*order, *evidence[:4], *people[:1], *evidence[4:8], *people[1:], *evidence[8:]]


def _cost(unit: Unit, draft: Draft, evidence: Sequence[Evidence]) -> int:
    if isinstance(unit, Evidence):
        text = render.evidence_block(unit, draft.now, render.BLANK_FENCE)
        for conflict in _conflicts(draft, [*evidence, unit]):
            if unit.ref in (conflict.a, conflict.b):
                text += "\n" + render.conflict_line(conflict)
    elif isinstance(unit, PersonPointer):
        # A receipt whose evidence is not in (yet) is told by its address, which is longer.
        text = render.person_block(_with_refs([unit], evidence)[0], draft.now)
    else:
        text = render.meaning_block(unit, draft.now, render.BLANK_FENCE)
    return count_tokens(f"{text}\n\n") + 1


def _shortened(unit: Unit, draft: Draft) -> Evidence | None:
    if not isinstance(unit, Evidence):
        return None
    short = draft.shorter(unit.uri)
    return unit.model_copy(update={"snippet": short}) if short != unit.snippet else None


def _with_refs(people: Sequence[PersonPointer], evidence: Sequence[Evidence]) -> list[PersonPointer]:
    """A receipt names its place in the bundle only where the evidence made it in."""
    there = {e.ref for e in evidence}
    return [
        p.model_copy(update={"why": tuple(r if r.ref in there else r.model_copy(update={"ref": None}) for r in p.why)})
        for p in people
    ]


def _conflicts(draft: Draft, evidence: Sequence[Evidence]) -> tuple[Conflict, ...]:
    refs = {e.uri: e.ref for e in evidence}
    return tuple(
        Conflict(a=refs[d.a], b=refs[d.b], a_uri=d.a, b_uri=d.b, why=d.why)
        for d in draft.disagreements
        if d.a in refs and d.b in refs
    )


def _more(draft: Draft, evidence: Sequence[Evidence], room: int, tuning: Tuning) -> More:
    left_out = draft.evidence[len(evidence) :]
    pointers = []
    for e in left_out[: tuning.most_pointers]:
        cost = count_tokens(render.pointer_line(e.title, e.source.value, e.uri) + "\n")
        if cost > room:
            break
        room -= cost
        tokens = count_tokens(render.evidence_block(e, draft.now, render.BLANK_FENCE))
        pointers.append(Pointer(uri=e.uri, title=e.title, source=e.source, tokens=tokens))
    return More(dropped=len(left_out), items=tuple(pointers))


def _bundle(
    draft: Draft,
    evidence: Sequence[Evidence],
    people: Sequence[PersonPointer],
    glossary: Sequence[GlossaryMeaning],
    more: More,
    max_tokens: int,
) -> Bundle:
    bundle = Bundle(
        id=str(uuid.uuid4()),
        made_at=datetime.now(UTC),
        question=draft.question,
        interpreted_as=draft.interpretation,
        asker=draft.asker,
        now=draft.now,
        sources=tuple(
            SourceReport(source=s, returned=sum(e.source is s for e in evidence), synced_at=draft.synced_at.get(s))
            for s in draft.sources
        ),
        evidence=tuple(evidence),
        people=tuple(people),
        glossary=tuple(glossary),
        conflicts=_conflicts(draft, evidence),
        gaps=draft.gaps,
        unresolved=draft.unresolved,
        more=more,
        budget=Budget(max_tokens=max_tokens, used=0),
        digest="",
    )
    used = count_tokens(render.render_markdown(bundle, fence=render.BLANK_FENCE))
    bundle = bundle.model_copy(update={"budget": Budget(max_tokens=max_tokens, used=used)})
    return bundle.model_copy(update={"digest": digest_of(bundle)})
