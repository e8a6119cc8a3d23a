"""The context engine: one question of one asker to one bundle, every step under the asker's trim.

late binding (where labels ask for it) → interpret → resolve focus → gather → rank → marks and conflicts → people →
meanings → pack. Every store call takes the Trim, so what the asker may not read can change nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from core import uris
from core.access import Trim, Verified
from core.bundle import Bundle, ContextRequest, Focus
from core.clock import Clock
from core.embedding.port import Embedder
from core.errors import NotFoundError
from core.index.port import IndexReader
from core.items import Source
from core.principals import PrincipalSet
from core.tuning import DEFAULT, Tuning
from core.views import DefinitionsView, ItemView, PeopleView
from graph.directory import DirectoryStore
from graph.edges import EdgeStore
from graph.glossary import GlossaryStore
from graph.records import ItemStore
from graph.runs import RunStore
from graph.scopes import ScopeStore
from graph.supersession import SupersessionStore
from query.compose import Composer
from query.evidence import author_of
from query.focus import FocusResolver, names_of
from query.gather import Gatherer
from query.interpret import Reading, read_question
from query.late_binding import LateBinder, Wanted
from query.named import Named
from query.neighbours import Neighbours
from query.retrieve import Retriever
from query.supersede import marks

# Room for everything: views show a part of a bundle whole.
_WHOLE: Final = 200_000


class ContextEngine:
    """Answers `get_context` and `expand`. Needs only reading stores, and a principal set for every call."""

    def __init__(
        self,
        *,
        scopes: ScopeStore,
        items: ItemStore,
        edges: EdgeStore,
        glossary: GlossaryStore,
        supersessions: SupersessionStore,
        directory: DirectoryStore,
        runs: RunStore,
        index: IndexReader,
        embedder: Embedder,
        clock: Clock,
        sources: tuple[Source, ...],
        default_max_tokens: int = 6000,
        tuning: Tuning = DEFAULT,
        late_binder: LateBinder | None = None,
    ) -> None:
        self._late = late_binder
        self._retriever = retriever = Retriever(items, index, embedder, tuning)
        self._scopes = scopes
        self._items = items
        self._supersessions = supersessions
        self._clock = clock
        self._sources = sources
        self._max_tokens = default_max_tokens
        self._focus = FocusResolver(items, scopes)
        self._named = Named(items, glossary, tuning)
        self._gatherer = Gatherer(
            items, supersessions, retriever, Neighbours(items, retriever, tuning), self._named, tuning
        )
        self._composer = Composer(
            items=items, scopes=scopes, edges=edges, directory=directory, runs=runs, tuning=tuning
        )

    def get_context(self, principals: PrincipalSet, request: ContextRequest) -> Bundle:
        """Return the evidence that this asker may read for this question.

        Raises InputError where `max_tokens` is too small, StoreUnavailableError where a store does not answer.
        """
        present = self._clock.now()
        given = _focus_of(request)
        reading = read_question(request.question, now=present, as_of=_aware(request.as_of), has_focus=bool(given))
        verified = self._confirmed(
            principals,
            lambda: Wanted(
                uris=[x for f in given if f.item for x in (f.item.strip(), uris.item_uri(f.item.strip()))],
                names=[*names_of(given), *(n.value for n in reading.names)],
                vectors=lambda: self._retriever.vectors(reading),
            ),
        )
        with self._scopes.snapshot():
            return self._answer(self._scopes.trim_for(principals, verified), request, reading, given, present)

    def _confirmed(self, principals: PrincipalSet, wanted: Callable[[], Wanted]) -> Verified | None:
        """The word of the sources for what a question might lead to, where labels ask for it."""
        return self._late.confirm(principals, wanted()) if self._late is not None else None

    def _answer(
        self, trim: Trim, request: ContextRequest, reading: Reading, given: tuple[Focus, ...], present: datetime
    ) -> Bundle:
        reading, terms = self._named.recognise(trim, reading)
        focus = self._focus.resolve(trim, given)
        asking = self._composer.asking(trim, reading, focus, now=reading.as_of or present)
        meaning_rows = self._composer.meaning_rows(asking, terms)
        gathered = self._gatherer.gather(
            trim, reading, focus, asking.focus_words, self._sources, meaning_rows if asking.wants_meaning else ()
        )
        return self._composer.compose(
            asking,
            gathered,
            terms,
            request=request,
            sources=self._sources,
            max_tokens=request.max_tokens or self._max_tokens,
        )

    def who_knows(self, principals: PrincipalSet, topic: str) -> PeopleView:
        """Return whom to ask about a topic: the people of the bundle for that question, without its evidence.

        Raises StoreUnavailableError where a store does not answer.
        """
        bundle = self.get_context(principals, ContextRequest(question=f"who knows about {topic}?", max_tokens=_WHOLE))
        # Refs number the evidence of a bundle that is not shown here; receipts keep their addresses.
        people = tuple(
            p.model_copy(update={"why": tuple(r.model_copy(update={"ref": None}) for r in p.why)})
            for p in bundle.people
        )
        return PeopleView(
            topic=topic,
            interpreted_as=bundle.interpreted_as,
            asker=bundle.asker,
            now=bundle.now,
            people=people,
            unresolved=bundle.unresolved,
            digest=bundle.digest,
        )

    def define(self, principals: PrincipalSet, term: str) -> DefinitionsView:
        """Return what a term means to this asker: the meanings of the bundle for that question, without its evidence.

        Raises StoreUnavailableError where a store does not answer.
        """
        bundle = self.get_context(principals, ContextRequest(question=f"what does {term} mean?", max_tokens=_WHOLE))
        return DefinitionsView(
            term=term,
            interpreted_as=bundle.interpreted_as,
            asker=bundle.asker,
            now=bundle.now,
            meanings=bundle.glossary,
            unresolved=bundle.unresolved,
            digest=bundle.digest,
        )

    def expand(self, principals: PrincipalSet, uri: str) -> ItemView:
        """Return one item in full; NotFoundError where there is none or not for this asker, alike."""
        verified = self._confirmed(principals, lambda: Wanted(uris=[uri, uris.item_uri(uri)]))
        with self._scopes.snapshot():
            return self._view(self._scopes.trim_for(principals, verified), uri)

    def _view(self, trim: Trim, uri: str) -> ItemView:
        address = uris.item_uri(uri)
        full = None if trim.sees_nothing else self._items.full(trim, address)
        if full is None:
            raise NotFoundError("there is no such item", where=uri)
        row, text = full
        successors = marks(self._supersessions.of(trim, [address]))
        return ItemView(
            uri=row.uri,
            source=row.source,
            kind=row.kind,
            title=row.title,
            number=row.number,
            url=row.url,
            container=row.container,
            author=author_of(row.author),
            created_at=row.created_at,
            modified_at=row.modified_at,
            validated_at=row.validated_at,
            label=row.label,
            state=row.state,
            authority=str(row.authority),
            superseded_by=successors[address].by if address in successors else None,
            links=tuple(sorted({end for _, end, _ in self._items.links_from(trim, [address])})),
            text=text,
        )


def _aware(at: datetime | None) -> datetime | None:
    """A time without a zone is read as UTC."""
    if at is None:
        return None
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)


def _focus_of(request: ContextRequest) -> tuple[Focus, ...]:
    if request.focus is None:
        return ()
    return request.focus if isinstance(request.focus, tuple) else (request.focus,)
