"""Mines later decisions: a younger text that says, in the language of decisions, that a standing page no longer holds.

Worked out per question among what the asker may read, so a decision that they can't read marks nothing. A decision
that names the page (by title or link) is nearly sure; one that only speaks of the same subject is a good guess.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import timedelta

from core.authority import position
from core.items import ItemKind
from core.text.tokens import fold, keyword_tokens
from core.tuning import Tuning
from graph.records import ItemRow
from query.differ import differing, states
from query.rank import moment
from query.statements import Statement, sentences, statements, subject_words

# Says outright that something takes the place of something.
_REPLACES = re.compile(
    r"\b(?:this |which )?(?:replaces?|supersedes?|overrides?|obsoletes?)\b|\bno longer (?:valid|holds?|true|applies)\b|"
    r"\b(?:is|are) (?:now )?(?:outdated|obsolete)\b|\binstead of what\b|"
    r"\b(?:dit |dat )?vervangt\b|\bvervalt\b|\bniet meer (?:geldig|van toepassing)\b|\bgeldt niet (?:meer|langer)\b"
)
# Words of a decision as such: nothing less makes a text that names no page one that supersedes it.
_DECIDED = re.compile(
    r"\bdecision\b|\bdecided\b|\bagreed\b|\bno longer\b|\bwe(?:'ve| have| will)? (?:stop(?:ped)?|switched|dropped)\b|"
    r"\b(?:not|nothing|nobody|never|no|\w+n't)\b.{0,80}\bany ?(?:more|longer)\b|\bfrom now on\b|\bgoing forward\b|"
    r"\bbesluit\b|\bbesloten\b|\bafgesproken\b|\bniet (?:meer|langer)\b|\bgeen .{1,60} meer\b|\bvoortaan\b|"
    r"\bwe stoppen\b"
)
_DENIES = re.compile(r"\b(?:no|not|never|nothing|\w+n't|niet|geen|nooit)\b")
# Announces a change: enough where another value is given for the same thing.
_CHANGES = re.compile(
    r"\b(?:as of|from (?:here|today) on|starting|from today|from (?:this|next) \w+|effective)\b|"
    r"\bfrom \d{1,2} \w+\b|\bsince (?:last|this|yesterday|today|\w+day)\b|\bwe (?:will )?(?:switch|move|drop)\b|"
    r"\b(?:is|are|becomes?) now\b|\bnow (?:is|are)\b|\b(?:went|goes?|going|gone) (?:up|down)\b|"
    r"\b(?:moves?|moved|changed?|changes|raised|increased|lowered|reduced|extended|shortened) (?:\S+ ){0,5}to\b|"
    r"\bmet ingang van\b|\bvanaf (?:nu|heden|vandaag|morgen|deze|volgende|\d)|\b(?:is|zijn) nu\b|"
    r"\b(?:verhoogd|verlaagd|verlengd|verkort|gewijzigd) (?:\S+ ){0,5}naar\b|\bgaat (?:\S+ ){0,3}naar\b"
)
# A wish or a plan changes nothing yet.
_PROPOSES = re.compile(
    r"\b(?:propos\w+|suggest\w*|should|could|would|might|maybe|perhaps|what if|voorstel\w*|zou(?:den)?|misschien)\b"
)
# Talk within days of a page's review is about the page, not against it.
_LEAST_GAP = timedelta(days=7)
_CHANGES_MIND = frozenset({ItemKind.THREAD, ItemKind.WORK_ITEM, ItemKind.WIKI_PAGE, ItemKind.PULL_REQUEST})
NAMED_CONFIDENCE = 0.9
SUBJECT_CONFIDENCE = 0.6


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One piece of evidence as compared: its row, the text shown, and its headings."""

    row: ItemRow
    text: str
    context: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """`new` decides otherwise than `old` holds, in these words."""

    old: str
    new: str
    confidence: float
    words: str


@dataclass(frozen=True, slots=True)
class _Told:
    """Sentences that announce a decision, and those that say outright that something is replaced."""

    decides: tuple[str, ...]
    replaces: tuple[str, ...]


def later_decisions(
    sides: Sequence[Side], *, question: str, links: Collection[tuple[str, str]], tuning: Tuning
) -> tuple[Decision, ...]:
    """Return the best later decision on each standing page among `sides`, ordered by the page's place.

    `links` are (from, to) pairs that the asker may read.
    """
    asked = frozenset(keyword_tokens(question))
    told = {s.row.uri: t for s in sides if s.row.kind in _CHANGES_MIND and (t := _told(s)) is not None}
    if not told:
        return ()
    rare = rare_words(sides)
    found = []
    for old in sides:
        if old.row.kind is not ItemKind.WIKI_PAGE:
            continue
        standing = subject_words(f"{old.row.title} {old.context} {old.text}")
        values = statements(old.text, f"{old.row.title} {old.context}")
        candidates = []
        for new in sides:
            if new.row.uri == old.row.uri or new.row.uri not in told or not younger(new.row, old.row):
                continue
            linked = (new.row.uri, old.row.uri) in links
            decision = _decided(old, standing, values, new, told[new.row.uri], rare, asked, linked, tuning)
            # A page may replace a page by saying so; talk of the same subject in another page is no decision.
            if decision is not None and (decision.confidence >= NAMED_CONFIDENCE or new.row.kind is ItemKind.THREAD):
                candidates.append(decision)
        if candidates:
            found.append(min(candidates, key=lambda d: (-d.confidence, d.new)))
    return tuple(found)


def younger(new: ItemRow, old: ItemRow, *, by: timedelta = timedelta()) -> bool:
    """Whether `new` came after what `old` says was last changed or vouched for, by more than `by`."""
    at, before = new.modified_at or new.created_at, moment(old)
    return at is not None and before is not None and at - before > by


def rare_words(sides: Sequence[Side]) -> frozenset[str]:
    """Words that at most a third of what was found uses: two texts that share one share a subject."""
    counts: Counter[str] = Counter()
    for side in sides:
        counts.update(subject_words(f"{side.row.title} {side.text}"))
    most = max(2, len(sides) // 3)
    return frozenset(w for w, n in counts.items() if n <= most)


def lesser(new: ItemRow, old: ItemRow, tuning: Tuning) -> bool:
    """Whether `new` has less standing than `old`."""
    order = tuning.authority_order
    return position(str(new.authority), order) > position(str(old.authority), order)


def _told(new: Side) -> _Told | None:
    """The sentences of a text that decide or replace something; None where there are none."""
    # A question decides nothing.
    lines = [x for x in (new.row.title, *sentences(new.text)) if not x.rstrip().endswith("?")]
    folded = [fold(x) for x in lines]
    decides = tuple(
        x
        for x, y in zip(lines, folded, strict=True)
        if _DECIDED.search(y) or (_CHANGES.search(y) and not _PROPOSES.search(y))
    )
    replaces = tuple(x for x, y in zip(lines, folded, strict=True) if _REPLACES.search(y))
    return _Told(decides, replaces) if decides or replaces else None


def _decided(
    old: Side,
    standing: frozenset[str],
    values: Sequence[Statement],
    new: Side,
    told: _Told,
    rare: frozenset[str],
    asked: frozenset[str],
    linked: bool,
    tuning: Tuning,
) -> Decision | None:
    for sentence in told.replaces:
        if _names(fold(sentence), old.row) or (linked and not _names_another(fold(sentence))):
            words = next((x for x in told.decides if x != new.row.title), sentence)
            return Decision(old=old.row.uri, new=new.row.uri, confidence=NAMED_CONFIDENCE, words=words)
    best: tuple[int, str] | None = None
    decided_later = younger(new.row, old.row, by=_LEAST_GAP)
    named = _names(fold(new.text), old.row)
    for sentence in dict.fromkeys((*told.decides, *told.replaces)) if decided_later else ():
        common = subject_words(sentence) & standing
        if not common & asked:
            continue
        # Another value for the same thing, from now on, needs no word of decision.
        said = statements(sentence, new.row.title)
        other = differing(said, values, asked, tuning) is not None or _moves(said, values, tuning)
        folded = fold(sentence)
        replaces = sentence in told.replaces and not _names_another(folded)
        decided = replaces or _DECIDED.search(folded) is not None
        same = len(common) >= 2 if named else len(common) >= 3 and bool(common & rare)
        # To agree on the value that the page states, and on no other ("from 10 to 7%"), is to confirm it.
        confirms = bool(said) and not _DENIES.search(folded) and all(states(values, s, tuning) for s in said)
        if other or (decided and same and not confirms):
            best = max(best or (0, ""), (len(common), sentence), key=lambda b: b[0])
    if best is None:
        return None
    return Decision(old=old.row.uri, new=new.row.uri, confidence=SUBJECT_CONFIDENCE, words=best[1])


def _moves(said: Sequence[Statement], values: Sequence[Statement], tuning: Tuning) -> bool:
    """Whether a sentence leads from the value that the page states to another ("from 10 to 7%")."""
    held = [(at, s) for at, s in enumerate(said) if states(values, s, tuning)]
    return any(s.dimension == h.dimension and s.value != h.value for at, h in held for s in said[at + 1 :])


def _names(sentence: str, row: ItemRow) -> bool:
    title = " ".join(re.findall(r"\w+", fold(row.title)))
    if len(title) < 6:
        return False
    words = " ".join(re.findall(r"\w+", sentence))
    return f" {title} " in f" {words} "


def _names_another(sentence: str) -> bool:
    """Whether the sentence names a page at all; if it does and it is not ours, the link is to something else."""
    return bool(re.search(r"\b(?:page|pagina)\s+\S", sentence))
