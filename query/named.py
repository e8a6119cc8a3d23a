"""Looks up what a question names: terms that the asker's view knows, their meanings, and items named exactly."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from core.access import Trim
from core.items import Source
from core.text.terms import meaning_key, term_key
from core.text.tokens import fold
from core.tuning import Tuning
from graph.glossary import GlossaryRow, GlossaryStore
from graph.records import ItemRow, ItemStore
from query.identifiers import NameKind
from query.interpret import Reading, phrases_of

# A name that more items answer to than this names none of them.
_MOST_NAMED = 3
_MOST_MEANINGS_ADDED = 4
_MOST_SHORT_FORMS = 6


class Named:
    """Look-ups by name through the trimmed stores."""

    def __init__(self, items: ItemStore, glossary: GlossaryStore, tuning: Tuning) -> None:
        self._items = items
        self._glossary = glossary
        self._tuning = tuning

    def recognise(self, trim: Trim, reading: Reading) -> tuple[Reading, dict[str, list[GlossaryRow]]]:
        """Return the reading with the terms that this asker's view knows, the search words that they add, and the
        rows of each term by key. Quoted words are searched as they stand and add nothing."""
        if trim.sees_nothing:
            return reading, {}
        plain = reading.without_literals()
        phrases = phrases_of(plain)
        keys = {term_key(p): p for p in reversed(phrases)}
        if reading.term:
            keys.setdefault(term_key(reading.term), reading.term)
        known = self._glossary.find_keys(trim, sorted(keys))
        reading = reading.recognise({fold(keys[k]) for k in known if k in keys})
        wanted = [term_key(a) for a in self.terms_of(reading)]
        rows = {}
        for key in dict.fromkeys(self._known_form(w, known) for w in wanted):
            if key is not None:
                said = [r for r in self._glossary.meanings(trim, key) if not _later(r.at, reading.as_of)]
                if said:
                    rows[key] = sorted(said, key=lambda r: (r.meaning_key, r.uri, r.quote))
        for key in rows:
            meanings = {r.meaning_key: r for r in reversed(rows[key])}
            for meaning in sorted(meanings)[:_MOST_MEANINGS_ADDED]:
                row = meanings[meaning]
                reading = reading.with_added(row.meaning, f"a meaning of {row.term}")
        return self._short_forms(trim, reading, plain), rows

    def _short_forms(self, trim: Trim, reading: Reading, plain: str) -> Reading:
        """Long forms written out ("kai last system") add their short forms."""
        words = meaning_key(plain.replace("-", " ")).split()
        rows = self._glossary.long_forms(trim, words) if len(words) > 1 else []
        rows = [r for r in rows if " " in r.meaning_key and not _later(r.at, reading.as_of)]
        for row in sorted(rows, key=lambda r: (r.term, r.uri))[:_MOST_SHORT_FORMS]:
            reading = reading.with_added(row.term, f"short for {row.meaning}")
        return reading

    def terms_of(self, reading: Reading) -> tuple[str, ...]:
        """The terms of a question whose meaning may matter: the one asked for alone, else every abbreviation."""
        if reading.term:
            return (reading.term,)
        return reading.abbreviations

    def items(self, trim: Trim, reading: Reading) -> tuple[str, ...]:
        """Addresses of items that the question names exactly."""
        if trim.sees_nothing:
            return ()
        found: dict[str, None] = {}
        for name in reading.names:
            for row in self._rows(trim, name.kind, name.value):
                found[row.uri] = None
        return tuple(found)

    def _rows(self, trim: Trim, kind: NameKind, value: str) -> Iterable[ItemRow]:
        if kind is NameKind.WORK_ITEM:
            rows = self._items.find(trim, source=Source.WORK_ITEMS, number=value)
        elif kind is NameKind.PULL_REQUEST:
            rows = self._items.find(trim, source=Source.PULL_REQUESTS, number=value)
        elif kind in (NameKind.COMMIT, NameKind.FILE):
            rows = self._items.find(trim, source=Source.CODE, alias=value)
        elif kind is NameKind.SYMBOL:
            rows = self._items.find(trim, alias=f"sql:{value}")
        else:
            return ()
        return rows if len(rows) <= _MOST_NAMED else ()

    @staticmethod
    def _known_form(key: str, known: Iterable[str]) -> str | None:
        known = set(known)
        return next((k for k in (key, key.removesuffix("s")) if k in known), None)


def _later(at: datetime | None, as_of: datetime | None) -> bool:
    return as_of is not None and at is not None and at > as_of
