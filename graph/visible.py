"""The one condition under which the query plane sees a row, and the folding under which it looks things up."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from typing import Any, Final, LiteralString
from urllib.parse import parse_qsl, unquote, urlsplit

from psycopg.sql import SQL, Composed

from core.access import Trim, Unconfirmed
from core.errors import InvariantError

# `shown`, a column: the item is live, and the index holds what the record says. A hidden one (missing or unreadable at
# its source) does not count until it was read again. From a configured label on, an item is let through only where its
# source has confirmed it for this request.
_RULE: Final[LiteralString] = """(
    {item}.shown AND {item}.scope = ANY(%(readable)s) AND (
        NOT %(late)s::boolean OR {item}.label IS NULL OR {item}.label = ANY(%(free)s)
        OR {item}.uri = ANY(%(verified)s)
    )
)"""
_UNCONFIRMED_RULE: Final = SQL(
    "i.shown AND i.scope = ANY(%(readable)s) AND i.label IS NOT NULL AND i.label <> ALL(%(free)s)"
)
VISIBLE: Final = SQL(_RULE).format(item=SQL("i"))
_OTHER_VISIBLE: Final = SQL(_RULE).format(item=SQL("t"))


def trimmed(statement: LiteralString, **others: LiteralString) -> Composed:
    """A statement with the condition at its `{visible}`, which it must have: `i` is the item that a row is, or hangs
    on as its evidence. `{other_visible}` is the same for a second item `t` that the row names."""
    if "{visible}" not in statement:
        raise InvariantError("a read of the query plane without its trim")
    texts = {name: SQL(text) for name, text in others.items()}
    return SQL(statement).format(visible=VISIBLE, other_visible=_OTHER_VISIBLE, **texts)


def seen_by(trim: Trim, **values: Any) -> dict[str, Any]:
    """Parameters of a statement that holds `VISIBLE`."""
    late = trim.late
    return {
        "readable": sorted(trim.readable),
        "late": late is not None,
        "free": list(late.free) if late is not None else [],
        "verified": sorted(late.verified) if late is not None else [],
        **values,
    }


def unconfirmed(statement: LiteralString) -> Composed:
    """A statement that names items to ask their source about, with the condition for them at its `{unconfirmed}`."""
    if "{unconfirmed}" not in statement:
        raise InvariantError("a look-up for late binding without its condition")
    return SQL(statement).format(unconfirmed=_UNCONFIRMED_RULE)


def asked_by(unconfirmed: Unconfirmed, **values: Any) -> dict[str, Any]:
    """Parameters of a statement made by `unconfirmed`."""
    return {"readable": sorted(unconfirmed.trim.readable), "free": list(unconfirmed.free), **values}


def fold(text: str) -> str:
    """The form in which names meet: composed, without case, spaces at the ends or runs of them."""
    return " ".join(unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold()).split())


def url_key(url: str) -> str:
    """The form in which URLs meet: percent signs read, fragment and order of parameters set aside."""
    try:
        parts = urlsplit(url.strip())
        query = sorted(parse_qsl(parts.query, keep_blank_values=True))
    except ValueError:
        return fold(url)
    asked = "&".join(f"{k}={v}" for k, v in query)
    host = parts.netloc.rpartition("@")[2]
    return fold(f"{parts.scheme}://{host}{unquote(parts.path).rstrip('/')}{'?' if asked else ''}{asked}")


def looks_like_url(text: str) -> bool:
    """Whether a name is a web address."""
    return text.strip().lower().startswith(("http://", "https://"))


def folded(texts: Iterable[str]) -> list[str]:
    """Each text folded; web addresses as URL keys."""
    return [url_key(t) if looks_like_url(t) else fold(t) for t in texts]
