"""Which work goes before which: the lanes of the schedule. Alone here, since the command line offers them as words."""

from __future__ import annotations

from enum import StrEnum


class Lane(StrEnum):
    """Work that must never wait behind a crawl, and crawls."""

    ACCESS = "access"
    CONTENT = "content"
