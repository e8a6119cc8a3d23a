"""The words of one message: what its author wrote, what it quotes, and what its cards and attachments show."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from core.text.html import html_to_markdown
from ingestion.teams.cards import card_text

Json = Mapping[str, Any]
_CARDS: Final = ("application/vnd.microsoft.card.", "application/vnd.microsoft.teams.card.")
_QUOTES: Final = frozenset({"messagereference", "forwardedmessagereference"})


@dataclass(frozen=True, slots=True)
class Words:
    """The texts of a message, as Markdown: its body, what it answers to, and what is shown with it."""

    body: str
    quoted: str = ""
    shown: str = ""

    @property
    def all(self) -> str:
        """Everything, as people see it: the quote, the answer to it, then cards and attachments."""
        return "\n\n".join(x for x in (self.quoted, self.body, self.shown) if x)

    @property
    def own(self) -> str:
        """What its author says: the body without what the editor quoted in it."""
        return "\n".join(line for line in self.body.split("\n") if not line.startswith(">")).strip()


def words_of(message: Json) -> Words:
    """Read body and attachments of a message."""
    body = message.get("body") or {}
    content = str(body.get("content") or "")
    attachments = [a for a in message.get("attachments") or () if isinstance(a, Mapping)]
    names = {str(a["id"]): _name(a) for a in attachments if a.get("id") and _name(a)}
    if str(body.get("contentType") or "").lower() == "html":
        text = html_to_markdown(content, attachments=names)
    else:
        text = content.strip()
    return Words(
        body=text,
        quoted="\n\n".join(x for x in map(_quote, attachments) if x),
        shown="\n".join(_shown(attachments, text)),
    )


def attached_urls(message: Json) -> Iterator[str]:
    """Pages that a message's files, meetings and tabs stand for. Where a forwarded message came from is not among
    them: it may have other readers."""
    for attachment in message.get("attachments") or ():
        url = attachment.get("contentUrl") if isinstance(attachment, Mapping) else None
        if isinstance(url, str) and url.startswith(("http://", "https://")) and not _is_quote(attachment):
            yield url


def _shown(attachments: list[Json], body: str) -> Iterator[str]:
    for attachment in attachments:
        name = _name(attachment)
        if name and f"[attachment: {name}]" not in body:
            yield f"[attachment: {name}]"
        if _is_card(attachment):
            text = card_text(_content(attachment))
            if text:
                yield text


def _quote(attachment: Json) -> str:
    """An answered or forwarded message as a quote under its author's name."""
    if not _is_quote(attachment):
        return ""
    content = _content(attachment)
    if not isinstance(content, Mapping):
        return ""
    said = content.get("messagePreview") or content.get("originalMessageContent") or ""
    sender = content.get("messageSender") or content.get("originalMessageSender") or {}
    text = html_to_markdown(str(said)) if "<" in str(said) else str(said).strip()
    if not text:
        return ""
    who = _display_name(sender)
    return "\n".join(f"> {line}".rstrip() for line in f"{who}: {text}".removeprefix(": ").split("\n"))


def _display_name(sender: Any) -> str:
    if not isinstance(sender, Mapping):
        return ""
    for kind in ("user", "application", "device"):
        identity = sender.get(kind)
        if isinstance(identity, Mapping) and identity.get("displayName"):
            return str(identity["displayName"])
    return ""


def _name(attachment: Json) -> str:
    """The name of a file, meeting or tab; quotes and cards are known by what they say."""
    if _is_quote(attachment) or _is_card(attachment):
        return ""
    return " ".join(str(attachment.get("name") or "").split())


def _is_card(attachment: Json) -> bool:
    return str(attachment.get("contentType") or "").lower().startswith(_CARDS)


def _is_quote(attachment: Json) -> bool:
    return str(attachment.get("contentType") or "").lower() in _QUOTES


def _content(attachment: Json) -> Any:
    """An attachment's JSON; None where it is none."""
    content = attachment.get("content")
    if not isinstance(content, str):
        return content
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return None
