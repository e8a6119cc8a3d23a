"""Turns ranked hits into the evidence of a bundle: quoted, dated, marked, with what it may be read through."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from core import principals as p
from core.access import LICENCE_GATE, Outcome, ScopeAcl, ScopeId, Trim
from core.bundle import Author, Evidence
from core.items import PersonRef
from core.principals import Principal
from core.tuning import Tuning
from graph.records import ItemRow
from query.interpret import Reading
from query.rank import Ranked
from query.snippets import flags, reads_on, snippet, tokens_shown
from query.supersede import Mark, staleness


@dataclass(frozen=True, slots=True, kw_only=True)
class Background:
    """What evidence is told with besides the hit: marks and successors by address, rules of the readable scopes, and
    the asker's containers by principal. `hits` texts are those of readable items alone."""

    marks: Mapping[str, Mark]
    successors: Mapping[str, ItemRow]
    acls: Mapping[ScopeId, ScopeAcl]
    containers: Mapping[Principal, str]


def evidence_of(
    ranked: Sequence[Ranked],
    *,
    reading: Reading,
    words: str,
    background: Background,
    trim: Trim,
    now: datetime,
    explain: bool,
    tuning: Tuning,
) -> tuple[Evidence, ...]:
    """Return the evidence of `ranked`, in its order, with refs E1, E2 …"""
    return tuple(
        _evidence(
            f"E{i + 1}",
            one,
            text=text_of(one, words, tokens_shown(tuning, place=i), whole=reads_on(i)),
            reading=reading,
            background=background,
            trim=trim,
            now=now,
            explain=explain,
            tuning=tuning,
        )
        for i, one in enumerate(ranked)
    )


def text_of(one: Ranked, words: str, most: int, *, whole: bool = False) -> str:
    """The words shown of a hit, at most about `most` tokens."""
    return snippet(one.hit, words, most, whole=whole)


def author_of(person: PersonRef | None) -> Author | None:
    """An author as the wire names them."""
    return Author(name=person.name, principal=person.principal) if person is not None else None


def access_words(acl: ScopeAcl | None, trim: Trim, containers: Mapping[Principal, str]) -> tuple[str, ...]:
    """The asker's principals through which a scope may be read, by readable name; licences only if nothing else."""
    if acl is None:
        return ()
    named: dict[str, None] = {}
    licences: dict[str, None] = {}
    for verdict in acl.explain(trim.principals.principals):
        if verdict.outcome is Outcome.ALLOWED:
            into = licences if verdict.gate == LICENCE_GATE else named
            for principal in verdict.named:
                into[_principal_words(principal, trim, containers)] = None
    return tuple(named or licences)


def _principal_words(principal: Principal, trim: Trim, containers: Mapping[Principal, str]) -> str:
    if principal == trim.principals.asker.principal:
        return "you"
    kind = p.kind_of(principal)
    if kind == "everyone":
        return "everyone in the company"
    if kind == "anyone":
        return "anyone signed in"
    if kind == "licence":
        return f"{principal.rpartition('/')[2]} licence"
    name = containers.get(principal)
    return f"{name} ({'Azure DevOps group' if kind == 'ado' else kind})" if name else kind


def _evidence(
    ref: str,
    one: Ranked,
    *,
    text: str,
    reading: Reading,
    background: Background,
    trim: Trim,
    now: datetime,
    explain: bool,
    tuning: Tuning,
) -> Evidence:
    row, hit = one.row, one.hit
    mark = background.marks.get(one.uri)
    successor = background.successors.get(mark.by) if mark is not None else None
    if successor is None:
        mark = None
    best = hit.chunks[0] if hit.chunks else None
    return Evidence(
        ref=ref,
        uri=row.uri,
        part_uris=_parts(row.uri, (u for c in hit.chunks[: hit.close] for u in c.part_uris)),
        source=row.source,
        kind=row.kind,
        title=row.title,
        number=row.number,
        url=row.url,
        container=row.container,
        heading=tuple(best.heading) if best is not None else (),
        author=author_of(row.author),
        created_at=row.created_at,
        modified_at=row.modified_at,
        validated_at=row.validated_at,
        label=row.label,
        state=row.state,
        authority=str(row.authority),
        staleness=staleness(row, mark=mark, successor=successor, now=now, reading=reading, tuning=tuning),
        superseded_by=mark.by if mark is not None else None,
        supersession=mark.words if mark is not None else None,
        via=hit.via,
        flags=flags(text, row, None if reading.as_of is not None else now),
        access=access_words(background.acls.get(row.scope), trim, background.containers),
        snippet=text,
        factors=one.factors if explain else None,
    )


def _parts(uri: str, parts: Iterable[str]) -> tuple[str, ...]:
    return tuple(u for u in dict.fromkeys(parts) if u != uri)
