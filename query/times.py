"""Reads points and stretches of time from a question, English and Dutch."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

_MONTHS = {
    name: number
    for number, names in enumerate(
        (
            "january januari jan",
            "february februari feb",
            "march maart mar mrt",
            "april apr",
            "may mei",
            "june juni jun",
            "july juli jul",
            "august augustus aug",
            "september sept sep",
            "october oktober oct okt",
            "november nov",
            "december dec",
        ),
        start=1,
    )
    for name in names.split()
}
_MONTH = "|".join(sorted(_MONTHS, key=lambda x: (-len(x), x)))
_YEAR = r"(?:19|20)\d\d"
# Where a team's sprints are not known, one is taken as two weeks, as most are.
_SPRINT = timedelta(days=14)


@dataclass(frozen=True, slots=True)
class Window:
    """A stretch of time that a question is about: from `start` to `end` (aware; either may be open)."""

    start: datetime | None
    end: datetime | None
    words: str


def window_in(folded: str, now: datetime) -> Window | None:
    """Return the stretch of time that folded text speaks of, seen from `now`; None where it speaks of none."""
    for read in (_explicit, _relative):
        window = read(folded, now)
        if window is not None:
            return window
    return None


def _explicit(text: str, now: datetime) -> Window | None:
    if m := re.search(r"\b(20\d\d)-(\d\d)-(\d\d)\b", text):
        day = _day(int(m[1]), int(m[2]), int(m[3]))
        if day is not None:
            return _around(text, m.start(), day, day + timedelta(days=1), m[0])
    if m := re.search(rf"\b(\d{{1,2}})(?:st|nd|rd|th)? ?(?:of )?({_MONTH})\.? ({_YEAR})\b", text):
        day = _day(int(m[3]), _MONTHS[m[2]], int(m[1]))
        if day is not None:
            return _around(text, m.start(), day, day + timedelta(days=1), m[0])
    if m := re.search(rf"\b({_MONTH})\.?,? (?:of |van )?({_YEAR})\b", text):
        return _around(text, m.start(), *_month(int(m[2]), _MONTHS[m[1]]), m[0])
    if m := re.search(rf"\bq([1-4]) ?(?:of |van )?({_YEAR})\b", text):
        start = datetime(int(m[2]), 3 * int(m[1]) - 2, 1, tzinfo=UTC)
        return _around(text, m.start(), start, _month(start.year, start.month + 2)[1], m[0])
    if m := re.search(
        rf"\b(?:in|during|since|before|until|till|by|from|of|sinds|tijdens|voor|tot|vanaf|anno|eind|begin) ({_YEAR})\b",
        text,
    ):
        year = int(m[1])
        return _around(text, m.start(1), *_years(year), m[0])
    if m := re.search(rf"\b(?:in|since|before|until|sinds|tot) ({_MONTH})\b(?! ?\d)", text):
        month = _MONTHS[m[1]]
        if m[1] == "may" and not re.search(r"\b(?:in|since|before|until) may\b", text):
            return None
        year = now.year if month <= now.month else now.year - 1
        return _around(text, m.start(1), *_month(year, month), m[0])
    return None


def _relative(text: str, now: datetime) -> Window | None:
    today = now.replace(hour=0, minute=0, second=0, microsecond=0)
    week = today - timedelta(days=today.weekday())
    if m := re.search(r"\b(?:last|previous|vorige|afgelopen) sprint\b", text):
        return Window(now - 2 * _SPRINT, now - _SPRINT / 2, m[0])
    if m := re.search(r"\b(?:last|previous|vorige|afgelopen) week\b", text):
        return Window(week - timedelta(days=7), week, m[0])
    if m := re.search(r"\b(?:last|previous|vorige|afgelopen) (?:month|maand)\b", text):
        first = today.replace(day=1)
        return Window((first - timedelta(days=1)).replace(day=1), first, m[0])
    if m := re.search(r"\b(?:last|previous) quarter\b|\b(?:vorig|afgelopen) kwartaal\b", text):
        first = today.replace(month=3 * ((today.month - 1) // 3) + 1, day=1)
        before = first - timedelta(days=1)
        return Window(before.replace(month=3 * ((before.month - 1) // 3) + 1, day=1), first, m[0])
    if m := re.search(r"\b(?:last|previous) year\b|\b(?:vorig|afgelopen) jaar\b", text):
        return Window(*_years(now.year - 1), m[0])
    if m := re.search(r"\b(?:yesterday|gisteren)\b", text):
        return Window(today - timedelta(days=1), today, m[0])
    if m := re.search(
        r"\b(\d{1,3}|an?|one|two|three|een|twee|drie) (day|week|month|year|dag|weken|maand|jaar)\w* (?:ago|geleden)\b",
        text,
    ):
        words = {"a": 1, "an": 1, "one": 1, "een": 1, "two": 2, "twee": 2, "three": 3, "drie": 3}
        count = words.get(m[1]) or int(m[1])
        days = {"d": 1, "w": 7, "m": 30, "y": 365, "j": 365}[m[2][0]]
        middle = today - timedelta(days=min(count * days, 36500))
        spread = timedelta(days=max(1, days // 2))
        return Window(middle - spread, middle + spread + timedelta(days=1), m[0])
    return None


def _around(text: str, at: int, start: datetime, end: datetime, words: str) -> Window:
    before = text[max(0, at - 14) : at + 8]
    if re.search(r"\b(?:before|until|till|voor|tot)\b", before):
        return Window(None, start, words)
    if re.search(r"\b(?:since|after|from|sinds|vanaf|na)\b", before):
        return Window(start, None, words)
    return Window(start, end, words)


def _day(year: int, month: int, day: int) -> datetime | None:
    try:
        return datetime(year, month, day, tzinfo=UTC)
    except ValueError:
        return None


def _month(year: int, month: int) -> tuple[datetime, datetime]:
    start = datetime(year, month, 1, tzinfo=UTC)
    return start, (start + timedelta(days=32)).replace(day=1)


def _years(year: int) -> tuple[datetime, datetime]:
    return datetime(year, 1, 1, tzinfo=UTC), datetime(year + 1, 1, 1, tzinfo=UTC)
