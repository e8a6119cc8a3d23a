"""Composes the bundle of what was gathered: rank, floor, duplicates, marks, conflicts, people, meanings, pack."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from core.access import Trim
from core.bundle import AskerInfo, Bundle, ContextRequest, Gap, GlossaryMeaning, Intent, PersonPointer
from core.items import Source
from core.tuning import Tuning
from graph.directory import DirectoryStore
from graph.edges import EdgeStore
from graph.glossary import GlossaryRow
from graph.records import ItemStore
from graph.runs import RunStore
from graph.scopes import ScopeStore
from query.asking import Asking
from query.conflicts import Disagreement, disagreements
from query.decisions import Decision, Side, later_decisions
from query.definitions import Nearness, by_nearness, meanings
from query.evidence import Background, evidence_of, text_of
from query.focus import Found as FocusFound
from query.gather import Gathered
from query.interpret import Reading, interpretation
from query.pack import Draft, pack
from query.people import Circle, people
from query.rank import Asker, Ranked, above_floor, rank, with_diversity, without_duplicates
from query.retrieve import Hit
from query.supersede import Mark, marks, outdated

_NOTHING = "nothing that you may read was found there for this question"
# Evidence that is compared for conflicts and decisions: pairs grow with the square.
_COMPARED = 14


class Composer:
    """Makes bundles; every store call takes the Trim."""

    def __init__(
        self,
        *,
        items: ItemStore,
        scopes: ScopeStore,
        edges: EdgeStore,
        directory: DirectoryStore,
        runs: RunStore,
        tuning: Tuning,
    ) -> None:
        self._items = items
        self._scopes = scopes
        self._edges = edges
        self._directory = directory
        self._runs = runs
        self._tuning = tuning

    def asking(self, trim: Trim, reading: Reading, focus: tuple[FocusFound, ...], *, now: datetime) -> Asking:
        """Start a question: look up who asks and whom and what they belong to."""
        principal = trim.principals.asker.principal
        containers = self._directory.containers_of(principal)
        return Asking(
            trim=trim,
            reading=reading,
            focus=focus,
            now=now,
            asker=Asker(
                principal=principal,
                closeness=self._directory.closeness(principal),
                containers=frozenset(containers.values()),
            ),
            containers=containers,
            account=self._directory.account(principal),
        )

    def meaning_rows(self, asking: Asking, terms: Mapping[str, Sequence[GlossaryRow]]) -> list[GlossaryRow]:
        """Sources of the meanings of the question's terms, those nearest to the asker first."""
        rows = [r for key in terms for r in terms[key]]
        self._load_edges(asking, [r.uri for r in rows])
        return by_nearness(rows, self._nearness(asking))

    def compose(
        self,
        asking: Asking,
        gathered: Gathered,
        terms: Mapping[str, Sequence[GlossaryRow]],
        *,
        request: ContextRequest,
        sources: tuple[Source, ...],
        max_tokens: int,
    ) -> Bundle:
        """Return the bundle. Raises InputError where `max_tokens` is too small."""
        asking.reading = gathered.reading
        hits = gathered.hits
        self._load_edges(asking, list(hits))
        links_in, links = self._links(asking, hits)
        # Both ends are among the hits unless one of them did not exist yet at the time asked about.
        declared = marks(r for r in gathered.supersessions if asking.reading.as_of is None or r.new_uri in hits)
        first = self._ranked(asking, hits, declared, links_in)
        decisions = self._decisions(asking, first, links)
        marked = {**{d.old: Mark(by=d.new, kind="mined", confidence=d.confidence) for d in decisions}, **declared}
        order = self._ranked(asking, hits, marked, links_in) if decisions else first
        kept = with_diversity(order, asking.reading, self._tuning)[: self._tuning.most_items]
        by_uri = {r.uri: r for r in kept}
        words = f"{asking.reading.question} {asking.focus_words}"
        evidence = evidence_of(
            kept,
            reading=asking.reading,
            words=words,
            background=self._background(asking, kept, hits, marked),
            trim=asking.trim,
            now=asking.now,
            explain=request.explain,
            tuning=self._tuning,
        )
        pointed = self._people(asking, order, {e.uri: e.ref for e in evidence})
        glossary = self._glossary(asking, terms, hits)
        draft = Draft(
            question=request.question,
            interpretation=interpretation(asking.reading, tuple(f.shown for f in asking.focus)),
            asker=AskerInfo(
                principal=asking.asker.principal,
                name=asking.account.name if asking.account is not None else asking.asker.principal,
                agent=asking.trim.principals.asker.agent,
            ),
            now=asking.now.astimezone(UTC),
            sources=sources,
            synced_at=self._runs.synced_at(),
            evidence=evidence,
            shorter=lambda uri: text_of(by_uri[uri], words, self._tuning.short_snippet_tokens),
            people=pointed,
            glossary=glossary,
            disagreements=self._disagreements(asking, kept, declared, decisions),
            gaps=tuple(Gap(source=s, note=_NOTHING) for s in sources if all(r.row.source is not s for r in kept)),
            unresolved=_unresolved(asking, kept, glossary, pointed),
        )
        return pack(draft, max_tokens, self._tuning)

    def _load_edges(self, asking: Asking, wanted: Sequence[str]) -> None:
        missing = sorted(set(wanted) - set(asking.edges))
        if missing and not asking.trim.sees_nothing:
            asking.edges.update({uri: [] for uri in missing})
            for edge in self._edges.of_items(asking.trim, missing):
                asking.edges[edge.uri].append(edge)

    def _links(self, asking: Asking, hits: Mapping[str, Hit]) -> tuple[dict[str, int], frozenset[tuple[str, str]]]:
        if not hits:
            return {}, frozenset()
        pairs = {(start, end) for start, end, _ in self._items.links_to(asking.trim, sorted(hits)) if start != end}
        counts: dict[str, int] = {}
        for _, end in pairs:
            counts[end] = counts.get(end, 0) + 1
        return counts, frozenset(pairs)

    def _ranked(
        self, asking: Asking, hits: Mapping[str, Hit], marked: Mapping[str, Mark], links_in: Mapping[str, int]
    ) -> list[Ranked]:
        ranked = rank(
            hits.values(),
            reading=asking.reading,
            now=asking.now,
            asker=asking.asker,
            edges=asking.edges,
            links_in=links_in,
            outdated=outdated((h.row for h in hits.values()), marked),
            focus_containers=asking.focus_containers,
            channels=asking.channels,
            tuning=self._tuning,
        )
        relevant = above_floor(ranked, channels=asking.channels, tuning=self._tuning)
        texts = {r.uri: r.hit.chunks[0].text if r.hit.chunks else "" for r in relevant}
        keep = frozenset(u for m in marked.items() for u in (m[0], m[1].by))
        return without_duplicates(relevant, texts, keep=keep | asking.focus_uris, tuning=self._tuning)

    def _sides(self, ranked: Sequence[Ranked]) -> list[Side]:
        return [
            Side(
                row=r.row,
                text="\n\n".join(c.text for c in sorted(r.hit.chunks[: r.hit.close], key=lambda c: c.ordinal)),
                context=" ".join(h for c in r.hit.chunks[: r.hit.close] for h in c.heading),
            )
            for r in ranked[:_COMPARED]
        ]

    def _decisions(
        self, asking: Asking, ranked: Sequence[Ranked], links: frozenset[tuple[str, str]]
    ) -> tuple[Decision, ...]:
        words = f"{asking.reading.question} {asking.focus_words}"
        return later_decisions(self._sides(ranked), question=words, links=links, tuning=self._tuning)

    def _disagreements(
        self,
        asking: Asking,
        ranked: Sequence[Ranked],
        declared: Mapping[str, Mark],
        decisions: Sequence[Decision],
    ) -> tuple[Disagreement, ...]:
        return disagreements(
            self._sides(ranked),
            question=f"{asking.reading.question} {asking.focus_words}",
            settled={(old, m.by) for old, m in declared.items() if m.kind == "declared"},
            decisions=decisions,
            tuning=self._tuning,
        )

    def _background(
        self, asking: Asking, kept: Sequence[Ranked], hits: Mapping[str, Hit], marked: Mapping[str, Mark]
    ) -> Background:
        wanted = sorted({marked[r.uri].by for r in kept if r.uri in marked})
        successors = {u: hits[u].row for u in wanted if u in hits}
        missing = [u for u in wanted if u not in successors]
        if missing:
            successors.update(self._items.visible(asking.trim, missing))
        scopes = sorted({r.row.scope for r in kept} & asking.trim.readable)
        return Background(
            marks=marked,
            successors=successors,
            acls=self._scopes.acls(scopes) if scopes else {},
            containers=asking.containers,
        )

    def _people(self, asking: Asking, ranked: Sequence[Ranked], refs: Mapping[str, str]) -> tuple[PersonPointer, ...]:
        topical = ranked[: self._tuning.person_items]
        named = {e.person for r in topical for e in asking.edges.get(r.uri, ()) if e.person is not None}
        if not named:
            return ()
        accounts = self._directory.accounts(sorted(named))
        managers = {a.manager for a in accounts.values() if a.manager is not None} - set(accounts)
        if managers:
            accounts = {**accounts, **self._directory.accounts(sorted(managers))}
        return people(
            topical,
            asking.edges,
            circle=Circle(accounts=accounts, asker=asking.asker.principal),
            refs=refs,
            reading=asking.reading,
            now=asking.now,
            tuning=self._tuning,
        )

    def _nearness(self, asking: Asking) -> Nearness:
        return Nearness(
            asker=asking.asker,
            edges=asking.edges,
            focus_uris=asking.focus_uris,
            focus_containers=asking.focus_containers | asking.channels,
        )

    def _glossary(
        self, asking: Asking, terms: Mapping[str, Sequence[GlossaryRow]], hits: Mapping[str, Hit]
    ) -> tuple[GlossaryMeaning, ...]:
        found: list[GlossaryMeaning] = []
        relevance = {u: h.relevance for u, h in hits.items()}
        for key in terms:
            found += meanings(
                terms[key],
                self._nearness(asking),
                relevance=relevance,
                first_ref=len(found) + 1,
                most=4 if asking.wants_meaning else 2,
            )
        return tuple(found)


def _unresolved(
    asking: Asking,
    kept: Sequence[Ranked],
    glossary: Sequence[GlossaryMeaning],
    pointed: Sequence[PersonPointer],
) -> tuple[str, ...]:
    """What the bundle could not settle, in words that say nothing of what the asker may not read."""
    reading = asking.reading
    lines = [
        f"The {f.shown.given} given as focus could not be resolved: there is no such thing, or not for you."
        for f in asking.focus
        if not f.shown.resolved
    ]
    if reading.points and not asking.focus:
        lines.append("The question points at something, but no focus was given.")
    if asking.wants_meaning and not glossary:
        lines.append(
            f"No meaning of {f'“{reading.term}”' if reading.term else 'the term'} was found in what you may read."
        )
    if reading.intent is Intent.PERSON and not pointed:
        lines.append("Nobody could be named with a receipt that you may read.")
    if not kept:
        lines.append("Nothing that you may read was found for this question.")
    return tuple(lines)
