"""Cuts the words that are shown of an item: its matching chunks in order, cut at line or sentence ends."""

from __future__ import annotations

import re
from datetime import datetime

from core.text.tokens import keyword_tokens
from core.token_count import count_tokens
from core.tuning import Tuning
from graph.records import ItemRow
from query.retrieve import Hit

_INSTRUCTION = re.compile(
    r"\b(?:ignore|disregard|forget)\b.{0,40}\b(?:instructions?|rules|prompt|above|previous|prior)\b"
    r"|^\s*(?:system|assistant|developer)\s*:|</?(?:system|untrusted|instructions?|tool_call|assistant)\b"
    r"|\byou are now\b|\b(?:call|use|invoke|run) (?:the )?(?:tool|function)\b|\bsystem prompt\b"
    r"|\bnegeer\b.{0,30}\binstructies\b",
    re.I | re.M,
)
_HIDDEN = re.compile("[\U000e0000-\U000e007f\u202a-\u202e\u2066-\u2069]")
GAP = "\n…\n"
_READ_ON = 2


def snippet(hit: Hit, question: str, most: int, *, whole: bool = False) -> str:
    """Return the words of `hit` that matched, in their order in the item, at most about `most` tokens.

    The best chunk comes first of all, then those that match nearly as well; with `whole` also the others, as far as
    there is room: of the first few items one wants to read on (a how-to's steps, not only its opening).
    """
    chunks = hit.chunks if whole else hit.chunks[: hit.close]
    room = float(most)
    shown: dict[int, str] = {}
    for chunk in chunks:
        if room < 30:
            break
        text = chunk.text.strip()
        # Code costs more tokens a character than prose.
        per_token = max(1.0, len(text) / max(1, count_tokens(text)))
        shown[chunk.ordinal] = cut(text, question, int(room * per_token))
        room -= count_tokens(shown[chunk.ordinal]) + 2
    parts: list[str] = []
    before: int | None = None
    for ordinal in sorted(shown):
        if before is not None:
            parts.append("\n\n" if ordinal == before + 1 else GAP)
        parts.append(shown[ordinal])
        before = ordinal
    return "".join(parts)


def cut(text: str, question: str, most: int) -> str:
    """Cut `text` to `most` characters at line or sentence ends, around the lines that meet the question's words."""
    if len(text) <= most:
        return text
    wanted = set(keyword_tokens(question))
    pieces = [p for p in re.split(r"(?<=\n)|(?<=[^\d\s][.!?]) (?=[A-Z\"“])", text) if p]
    scores = [len(wanted & set(keyword_tokens(p))) for p in pieces]
    best = max(range(len(pieces)), key=lambda i: (scores[i], -i))
    room = most - 2 * len(GAP)
    start = end = best
    size = len(pieces[best])
    while True:
        # Grow where the words are, and downwards where neither side has any: text is read onwards.
        up = start > 0 and size + len(pieces[start - 1]) + 1 <= room
        down = end + 1 < len(pieces) and size + len(pieces[end + 1]) + 1 <= room
        if not up and not down:
            break
        if up and (not down or scores[start - 1] > scores[end + 1]):
            start -= 1
            size += len(pieces[start]) + 1
        else:
            end += 1
            size += len(pieces[end]) + 1
    body = "".join(p if p.endswith("\n") else p + " " for p in pieces[start : end + 1]).strip()
    if len(body) > room:
        body = body[:room].rsplit(" ", 1)[0]
        end = len(pieces) - 2
    return ("" if start == 0 else "…\n") + body + ("" if end == len(pieces) - 1 else "\n…")


def flags(text: str, row: ItemRow, now: datetime | None) -> tuple[str, ...]:
    """What a reader should be warned of in a quoted text, and in its dates as seen from `now` (None: not judged)."""
    found = []
    if _INSTRUCTION.search(f"{row.title}\n{text}"):
        found.append("instruction_like")
    if _HIDDEN.search(text):
        found.append("hidden_text")
    if now is not None and any(
        t is not None and (t - now).total_seconds() > 86400 for t in (row.created_at, row.modified_at)
    ):
        found.append("date_in_future")
    return tuple(found)


def tokens_shown(tuning: Tuning, *, place: int) -> int:
    """Tokens shown of the item in this place (0 first): the first few in full, the tail ever shorter."""
    share = 1.0 if place < _READ_ON else 0.7 if place < 6 else 0.33
    return int(tuning.snippet_tokens * share)


def reads_on(place: int) -> bool:
    """Whether so much of the item in this place is shown as there is room for, matched or not."""
    return place < _READ_ON
