"""People who asked to be erased, and what they were called, as far as that may be kept: digests under a key of ours.

A digest can't be read, only compared: whoever has both the key and a guess can check the guess. That is as little as
will do, since a source goes on naming the person and what it names must be found again.
"""

from __future__ import annotations

import hashlib
import itertools
import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from core.items import PersonRef
from core.principals import Principal
from core.text.stopwords import STOP_WORDS

MARK: Final = "[erased]"
# An escaped space is no part of a word.
_WORD: Final = re.compile(r"%20|[^\W_]+")
# Characters that may stand between two words of a name: a space, a dot, a comma and a space, marks of emphasis.
_LONGEST_GAP: Final = 3
_FEWEST_LETTERS: Final = 2
# Of a single word that nobody has named by hand: initials are abbreviations of something else, too.
_FEWEST_OF_ONE_WORD: Final = 3
# Names and logins that everybody writes and means something else by, beside the stop words.
_EVERYDAY_WORDS: Final = """
admin administrator april art august bill build chance chat chase christian code contact dash data dean demo dev
drew earl faith finance frank gene grace grant guest help helpdesk hope hr hunter info jack joy june legal major
manager mark marketing mason mat max may mike miles office ops page parker pat pearl penny pierce prince rich rob
robin rose royal ruby sales sandy security service sky sue sunny support system team test tester trace user
victor violet wade ward wiki
"""
_EVERYDAY: Final = frozenset(_EVERYDAY_WORDS.split())


@dataclass(frozen=True, slots=True, order=True)
class NameDigest:
    """One thing that somebody is called: of how many words and letters, which says where it is worth looking."""

    words: int
    letters: int
    digest: str

    def to_json(self) -> list[Any]:
        """As it is kept."""
        return [self.words, self.letters, self.digest]

    @staticmethod
    def from_json(data: Iterable[Any]) -> NameDigest:
        """Read what `to_json` wrote."""
        words, letters, digest = data
        return NameDigest(int(words), int(letters), str(digest))


def subject_digest(key: bytes, principal: Principal) -> str:
    """Under which an erased person is kept."""
    return hashlib.blake2b(f"person\0{principal}".encode(), key=key, digest_size=16).hexdigest()


def name_digests(key: bytes, names: Iterable[str]) -> frozenset[NameDigest]:
    """Digests of these names and addresses in every form in which they are looked for: as written, without accents,
    and names with the last word first. A single letter is no name."""
    found: set[NameDigest] = set()
    for name in names:
        for written in {name, _plain(name)}:
            words = tuple(_words(written))
            if sum(map(len, words)) < _FEWEST_LETTERS:
                continue
            for order in {words, words if "@" in name else (words[-1], *words[:-1])}:
                found.add(NameDigest(len(order), sum(map(len, order)), _digest(key, order)))
    return frozenset(found)


def names_to_find(*, shown: Iterable[str], addresses: Iterable[str]) -> set[str]:
    """What to look for of somebody who is shown under these names and has these addresses or logins.

    A single word counts only where it is no part of a longer name: a first name alone may be anybody's. So does what
    stands before the `@` of an address. Nor does a word of every text (Will, it@…), or one of a letter or two: leaving
    it out would spoil what everybody else wrote.
    """
    names = {n.strip() for n in shown}
    logins = {a.strip().rpartition("\\")[2] for a in addresses}
    single = {n for n in names | {login.partition("@")[0] for login in logins} if len(_words(n)) == 1}
    longer = {n for n in names | {login.partition("@")[0] for login in logins} if len(_words(n)) > 1}
    parts = {word for n in longer for form in (n, _plain(n)) for word in _words(form)}
    whole = {login for login in logins if "@" in login}
    telling = {n for n in single if _is_telling(_words(n)[0]) and _words(n)[0] not in parts}
    return telling | longer | whole


def _is_telling(word: str) -> bool:
    return len(word) >= _FEWEST_OF_ONE_WORD and word not in STOP_WORDS | _EVERYDAY


class ErasedPeople:
    """Recognizes erased people by what they are, and what they were called in texts."""

    def __init__(self, key: bytes = b"", *, subjects: Iterable[str] = (), names: Iterable[NameDigest] = ()) -> None:
        self._key = key
        self._subjects = frozenset(subjects)
        self._names: Mapping[int, Mapping[int, frozenset[str]]] = _by_size(names)
        self._known: dict[Principal, bool] = {}

    def __bool__(self) -> bool:
        return bool(self._subjects)

    def has(self, principal: Principal) -> bool:
        """Whether this is one of them."""
        if not self._subjects:
            return False
        if principal not in self._known:
            self._known[principal] = subject_digest(self._key, principal) in self._subjects
        return self._known[principal]

    def is_meant(self, person: PersonRef | None) -> bool:
        """Whether a person, as an item names them, is one of them; where only a name is known, by that."""
        if person is None:
            return False
        if person.principal is not None:
            return self.has(person.principal)
        return self.masked(person.name).strip() == MARK

    def masked(self, text: str) -> str:
        """The text with what they are called replaced by `MARK`, the longest name first; the text itself
        where it names none of them."""
        if not self._names or not text:
            return text
        composed = unicodedata.normalize("NFC", text)
        found = [m for m in _WORD.finditer(composed) if m.group() != "%20"]
        words = [m.group().casefold() for m in found]
        spans = [m.span() for m in found]
        letters = [0, *itertools.accumulate(map(len, words))]
        pieces: list[str] = []
        done = n = 0
        while n < len(words):
            size = next(
                (
                    size
                    for size, known in self._names.items()
                    if n + size <= len(words)
                    and (digests := known.get(letters[n + size] - letters[n])) is not None
                    and all(b[0] - a[1] <= _LONGEST_GAP for a, b in itertools.pairwise(spans[n : n + size]))
                    and _digest(self._key, tuple(words[n : n + size])) in digests
                ),
                0,
            )
            if size:
                pieces += [composed[done : spans[n][0]], MARK]
                done = spans[n + size - 1][1]
            n += size or 1
        return "".join([*pieces, composed[done:]]) if pieces else text


def _by_size(names: Iterable[NameDigest]) -> dict[int, dict[int, frozenset[str]]]:
    """Digests by number of words, the longest first, then by number of letters."""
    found: dict[int, dict[int, set[str]]] = {}
    for name in names:
        found.setdefault(name.words, {}).setdefault(name.letters, set()).add(name.digest)
    return {
        words: {letters: frozenset(digests) for letters, digests in by_letters.items()}
        for words, by_letters in sorted(found.items(), reverse=True)
    }


def _digest(key: bytes, words: tuple[str, ...]) -> str:
    return hashlib.blake2b(f"name\0{' '.join(words)}".encode(), key=key, digest_size=16).hexdigest()


def _words(name: str) -> list[str]:
    return [w.casefold() for w in _WORD.findall(unicodedata.normalize("NFC", name)) if w != "%20"]


def _plain(name: str) -> str:
    """A name without its accents."""
    return "".join(c for c in unicodedata.normalize("NFD", name) if not unicodedata.combining(c))
