"""Every weight, half-life, floor and factor of retrieval and ranking, in one place, each with its reason.

Each factor other than relevance stays in a narrow band around 1, so that none can hide a clearly better item: with
everything against it, an item twice as relevant still stands first among items of equal standing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from types import MappingProxyType

from core.authority import DEFAULT_ORDER, Authority
from core.bundle import Intent
from core.items import ItemKind, Role

_DAY = timedelta(days=1)


def _table(rows: Mapping[ItemKind, float]) -> Mapping[ItemKind, float]:
    return MappingProxyType(dict(rows))


# How well a kind of item serves an intent, multiplied into relevance. A how-to is wanted as a page first, a status as
# a work item or what was said last week; a person is known by work done. Narrow: the words of the question decide.
_FIT: Mapping[Intent, Mapping[ItemKind, float]] = MappingProxyType(
    {
        Intent.PROCEDURAL: _table(
            {
                ItemKind.WIKI_PAGE: 1.12,
                ItemKind.FILE: 1.04,
                ItemKind.WORK_ITEM: 1.04,
                ItemKind.COMMIT: 0.85,
                ItemKind.PULL_REQUEST: 0.92,
            }
        ),
        Intent.DEFINITION: _table({ItemKind.WIKI_PAGE: 1.1, ItemKind.COMMIT: 0.85, ItemKind.PULL_REQUEST: 0.9}),
        Intent.DEICTIC: _table({ItemKind.FILE: 1.05, ItemKind.WIKI_PAGE: 1.05}),
        Intent.HISTORICAL: _table({}),
        Intent.PERSON: _table({ItemKind.WORK_ITEM: 1.05, ItemKind.PULL_REQUEST: 1.05, ItemKind.COMMIT: 0.95}),
        Intent.SECURITY: _table({ItemKind.WORK_ITEM: 1.08, ItemKind.THREAD: 1.04, ItemKind.COMMIT: 0.9}),
        Intent.STATUS: _table(
            {ItemKind.WORK_ITEM: 1.1, ItemKind.THREAD: 1.08, ItemKind.PULL_REQUEST: 1.05, ItemKind.FILE: 0.88}
        ),
        Intent.GENERAL: _table({ItemKind.COMMIT: 0.9}),
    }
)

# What a deed says of knowing the topic: doing and deciding weigh most, being mentioned least.
_ROLES: Mapping[Role, float] = MappingProxyType(
    {
        Role.CLOSED: 1.0,
        Role.ASSIGNED: 0.9,
        Role.WROTE: 0.9,
        Role.DECIDED: 0.9,
        Role.OWNS: 0.9,
        Role.VALIDATED: 0.7,
        Role.MERGED: 0.7,
        Role.ANSWERED: 0.7,
        Role.APPROVED: 0.5,
        Role.REVIEWED: 0.5,
        Role.EDITED: 0.5,
        Role.COMMENTED: 0.35,
        Role.MENTIONED: 0.15,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """All constants of the query plane. Times are durations, scores are in 0…1 unless said otherwise."""

    # --- search -----------------------------------------------------------------------------------------------
    # Chunks asked for per source and leg: enough for a dozen items a source after grouping, cheap when exact.
    leg_limit: int = 40
    # Fusion: a·dense/max + (1−a)·keyword/max over the union of all sources. Ahead of rank fusion and of either leg
    # on five public sets, with a between .4 and .5; per-source maxima would lift a source that has nothing to say.
    dense_weight: float = 0.5
    # Words added by the glossary or by reading a typo weigh this much of a typed word: what was typed outranks.
    expansion_weight: float = 0.5
    # An identifier or file name that was typed and found exactly is at least this relevant.
    exact_relevance: float = 1.0
    # Further chunks of the best chunk's item are shown with it when they score at least this share of it.
    merge_share: float = 0.8
    merged_chunks: int = 3
    # Of the first items further chunks are shown as far as there is room: so many are kept.
    kept_chunks: int = 8

    # --- what is left out -------------------------------------------------------------------------------------
    # Below this share of the best relevance an item says something else.
    relative_floor: float = 0.42
    # The same in a channel given as focus, where the question may be no more than "what was decided here?".
    here_floor: float = 0.25
    # Of unit vectors of sentence models, pairs below this cosine are hardly related; a keyword match of at least
    # `keyword_floor` of the best keyword score counts as related all the same.
    cosine_floor: float = 0.3
    keyword_floor: float = 0.45
    # Evidence of one bundle, before the token budget.
    most_items: int = 24

    # --- graph ------------------------------------------------------------------------------------------------
    # Links of so many best items are followed, one hop; from a focus two.
    expand_from: int = 10
    most_neighbours: int = 60
    # A neighbour gets this share of the relevance of what it is linked with, the rest from its own words.
    neighbour_share: float = 0.3
    # What a focus leads to is wanted for its place in the chain, whatever its words: at least so relevant by hop.
    focus_hops: tuple[float, ...] = (1.15, 0.98, 0.66, 0.5)

    # --- time (current questions) -----------------------------------------------------------------------------
    # Chat ages in weeks and ends at `chat_floor`; a decision from spring can still be the only one.
    chat_half_life: timedelta = 42 * _DAY
    chat_floor: float = 0.75
    # Closed work and merged changes decay into precedent over about a year.
    closed_half_life: timedelta = 365 * _DAY
    closed_floor: float = 0.85
    # A page hardly decays; that it was not looked after is told by a warning instead.
    wiki_half_life: timedelta = 730 * _DAY
    wiki_floor: float = 0.93
    # Chat of the last days is what is going on now.
    fresh_bonus: float = 1.08
    # What is deprecated or superseded stays, behind what replaces it.
    superseded_factor: float = 0.7
    # A question about a stretch of time prefers what comes from it.
    in_window: float = 1.2
    out_of_window: float = 0.85
    # A page that nobody vouched for in so long carries a warning.
    stale_after: timedelta = 365 * _DAY
    # Decided talk about running work is old after so long.
    stale_chat_after: timedelta = 365 * _DAY

    # --- authority --------------------------------------------------------------------------------------------
    authority_order: tuple[Authority, ...] = DEFAULT_ORDER
    authority_best: float = 1.15
    authority_worst: float = 0.85
    # Each visible link to an item adds this, up to the cap: a small endorsement.
    link_bonus: float = 0.01
    link_bonus_cap: float = 0.05

    # --- proximity --------------------------------------------------------------------------------------------
    own_item: float = 1.1
    teammates_item: float = 1.04
    own_container: float = 1.04
    focus_container: float = 1.06
    # A channel given as focus narrows the question to it, all but strictly.
    focus_channel: float = 1.4
    proximity_cap: float = 1.18

    # --- intent -----------------------------------------------------------------------------------------------
    fit: Mapping[Intent, Mapping[ItemKind, float]] = field(default_factory=lambda: _FIT)

    # --- duplicates and diversity -----------------------------------------------------------------------------
    # Share of common word triples from which two texts are one.
    duplicate_share: float = 0.85
    # The best item of each kind that a question calls for stands among the first so many.
    diverse_within: int = 6

    # --- conflicts --------------------------------------------------------------------------------------------
    # Share of key words (of the shorter statement) that two statements need to be about the same thing.
    same_subject: float = 0.6
    same_subject_words: int = 2
    most_conflicts: int = 6

    # --- people -----------------------------------------------------------------------------------------------
    role_weight: Mapping[Role, float] = field(default_factory=lambda: _ROLES)
    # Whoever wrote a work item or opened a thread mostly asked for something: worth this share of writing.
    asked_share: float = 0.45
    # Looking after a page is worth this share where it is asked how, not who.
    keeper_share: float = 0.6
    # A deed of another time than the one asked about.
    out_of_time: float = 0.3
    # Each further deed on the same item adds this share of its weight.
    second_deed: float = 0.35
    # What one did a year ago one still half knows.
    person_half_life: timedelta = 365 * _DAY
    person_floor: float = 0.25
    # Items that speak for people, and people named.
    person_items: int = 16
    most_people: int = 3
    most_receipts: int = 4
    fewer_receipts: int = 2
    # Score at which confidence is 0.63; and the least score that makes somebody worth a pointer.
    person_scale: float = 2.0
    person_least: float = 0.25
    # A follower with less than this share of the first person's score is not worth a pointer.
    person_share: float = 0.3

    # --- packing ----------------------------------------------------------------------------------------------
    # Tokens shown of an item: in full of the first two, less further down; and of the last one that just fits.
    snippet_tokens: int = 320
    short_snippet_tokens: int = 60
    most_pointers: int = 8


DEFAULT = Tuning()
