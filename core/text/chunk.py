"""Cuts items into chunks that fit the embedder's window, and loses none of their text.

A Markdown part is cut at headings, then between blocks; tables repeat their header. Code is cut by symbol. Messages
(comments, chat) are gathered, each with its author and day, so that a question and its answers stay together.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC

from core.errors import InvariantError
from core.items import Chunk, Item, ItemKind, Part, TextFormat
from core.text.code import Segment, common_path, finer, segments
from core.text.sections import Block, BlockKind, blocks, sections
from core.text.split import split_block, split_text

CountTokens = Callable[[str], int]

# Raise it with every change that cuts the same item otherwise: what the record holds is then cut anew.
CHUNKING = 3


@dataclass(frozen=True, slots=True)
class _Piece:
    """Text that fits the window under its heading. `embedded_heading` leaves out what must not move the vector."""

    heading: tuple[str, ...]
    embedded_heading: tuple[str, ...]
    text: str
    part_uris: tuple[str, ...]


def chunk_item(item: Item, count_tokens: CountTokens, window: int) -> tuple[Chunk, ...]:
    """Return the chunks of `item` in order, none above `window` tokens by `count_tokens`.

    An item without text gives one chunk of its title; one without either gives none, and so does a wiki page without
    text (only a contents macro, perhaps): its title stands in the heading path of what lies below it. Raises
    InvariantError where a chunk would not fit after all, so that no tail is cut off in silence.
    """
    if item.kind is ItemKind.WIKI_PAGE and not any(part.text.strip() for part in item.parts):
        return ()
    chunker = _Chunker(item.title.strip(), count_tokens, window)
    pieces = list(chunker.overflowing_title(item.uri))
    group: list[Part] = []
    for part in item.parts:
        if _is_message(item, part):
            if group and group[0].heading != part.heading:
                pieces.extend(chunker.messages(group))
                group = []
            group.append(part)
            continue
        pieces.extend(chunker.messages(group))
        group = []
        pieces.extend(chunker.part(part))
    pieces.extend(chunker.messages(group))
    if not pieces and chunker.title:
        pieces.append(_Piece((), (), chunker.title, (item.uri,)))
    return tuple(chunker.chunk(item.uri, i, piece) for i, piece in enumerate(pieces))


def _is_message(item: Item, part: Part) -> bool:
    """Whether a part is one voice of many: a comment, a reply, the first message of a thread."""
    return part.format is not TextFormat.CODE and (part.uri != item.uri or item.kind is ItemKind.THREAD)


class _Chunker:
    def __init__(self, title: str, count_tokens: CountTokens, window: int) -> None:
        self.title = title
        self._count = count_tokens
        self._window = window
        self._costs: dict[str, int] = {}
        self._prefixes: dict[tuple[str, ...], str] = {}

    def chunk(self, uri: str, ordinal: int, piece: _Piece) -> Chunk:
        embedded = self._embedded(piece.embedded_heading, piece.text)
        if self._count(embedded) > self._window:
            raise InvariantError(f"chunk {ordinal} does not fit {self._window} tokens", where=uri)
        return Chunk(
            uri=uri,
            ordinal=ordinal,
            heading=piece.heading,
            text=piece.text,
            embedded_text=embedded,
            part_uris=piece.part_uris,
        )

    def overflowing_title(self, uri: str) -> Iterator[_Piece]:
        """A title too long to stand before every chunk is shortened there, and kept whole as text of its own."""
        if self._prefix(()) != self.title:
            for text in split_text(self.title, lambda x: self._fits((), x)):
                yield _Piece((), (), text, (uri,))

    def part(self, part: Part) -> Iterator[_Piece]:
        match part.format:
            case TextFormat.MARKDOWN:
                yield from self._markdown(part)
            case TextFormat.PLAIN:
                yield from self._packed(part.heading, blocks(_plain(part.text)), (part.uri,))
            case TextFormat.CODE:
                yield from self._code(part)

    def messages(self, parts: list[Part]) -> Iterator[_Piece]:
        """Messages side by side up to the window; one that is too long is split, each piece under its author."""
        heading = parts[0].heading if parts else ()
        run: list[tuple[str, str]] = []

        def joined(entries: list[tuple[str, str]]) -> str:
            return "\n".join(text for _, text in entries)

        def close() -> Iterator[_Piece]:
            if run:
                yield _Piece(heading, heading, joined(run), tuple(dict.fromkeys(u for u, _ in run)))
                run.clear()

        for part in parts:
            body = part.text.strip()
            if not body:
                continue
            who = _attribution(part)
            whole = (part.uri, who + body)
            if self._fit_together(heading, [x for _, x in run], whole[1], "\n"):
                run.append(whole)
                continue
            yield from close()
            if self._fits(heading, whole[1]):
                run.append(whole)
                continue
            for text in self._pack(heading, blocks(_plain(body)), who):
                yield _Piece(heading, heading, text, (part.uri,))
        yield from close()

    def _markdown(self, part: Part) -> Iterator[_Piece]:
        found = sections(part.text)
        for i, section in enumerate(found):
            content = section.blocks
            if not content:
                below = found[i + 1].path if i + 1 < len(found) else ()
                if len(below) > len(section.path) and below[: len(section.path)] == section.path:
                    continue
                # Nothing stands under this heading: its own words are all there is to find.
                content = (Block(BlockKind.TEXT, section.line),)
            yield from self._packed((*part.heading, *section.path), content, (part.uri,))

    def _packed(self, heading: tuple[str, ...], content: tuple[Block, ...], uris: tuple[str, ...]) -> Iterator[_Piece]:
        for text in self._pack(heading, content):
            yield _Piece(heading, heading, text, uris)

    def _pack(self, heading: tuple[str, ...], content: tuple[Block, ...], who: str = "") -> Iterator[str]:
        """Blocks side by side up to the window, `who` before each piece."""

        def fits(text: str) -> bool:
            return self._fits(heading, who + text)

        run: list[str] = []
        for block in content:
            first, *rest = (*run, block.text)
            *before, last = (who + first, *rest)
            if self._fit_together(heading, before, last, "\n\n"):
                run.append(block.text)
                continue
            if run:
                yield who + "\n\n".join(run)
            run = []
            pieces = list(split_block(block, fits))
            if pieces and (len(pieces) == 1 or block.kind is BlockKind.TEXT):
                run = [pieces.pop()]
            yield from (who + text for text in pieces)
        if run:
            yield who + "\n\n".join(run)

    def _code(self, part: Part) -> Iterator[_Piece]:
        for group in self._groups(part, segments(part.text, part.language)):
            yield from self._gathered(part, group)

    def _groups(self, part: Part, found: tuple[Segment, ...]) -> Iterator[list[Segment]]:
        """Segments that fit, those that may share a chunk together: what had to be split shares none with others."""
        group: list[Segment] = []
        for segment in found:
            if len(segment.lines) == 1 or self._fits_alone(self._code_heading(part, [segment.path]), segment.text):
                group.append(segment)
                continue
            if segment.path and group:
                yield group
                group = []
            *others, last = self._groups(part, finer(segment))
            if segment.path:
                yield from (*others, last)
                continue
            for other in others:
                yield [*group, *other]
                group = []
            group += last
        if group:
            yield group

    def _gathered(self, part: Part, group: list[Segment]) -> Iterator[_Piece]:
        """Neighbouring segments side by side up to the window, under the symbol that they all lie in."""
        run: list[Segment] = []

        def text_of(segments: list[Segment]) -> str:
            return "\n".join(x.text for x in segments)

        def close() -> Iterator[_Piece]:
            text = text_of(run).strip("\n")
            if text.strip():
                yield self._lines(part, run[0].first, run[-1].last, [x.path for x in run], text)
            run.clear()

        for segment in group:
            if not self._fits_alone(self._code_heading(part, [segment.path]), segment.text):
                yield from close()
                heading = self._code_heading(part, [segment.path])
                for text in split_text(segment.text, lambda x: self._fits(heading, x)):  # noqa: B023 (used at once)
                    yield self._lines(part, segment.first, segment.last, [segment.path], text)
                continue
            heading = self._code_heading(part, [x.path for x in (*run, segment)])
            if run and not self._fit_together(heading, [x.text for x in run], segment.text, "\n"):
                yield from close()
            run.append(segment)
        yield from close()

    def _code_heading(self, part: Part, paths: list[tuple[str, ...]]) -> tuple[str, ...]:
        return (*part.heading, *common_path(paths))

    def _lines(self, part: Part, first: int, last: int, paths: list[tuple[str, ...]], text: str) -> _Piece:
        heading = self._code_heading(part, paths)
        where = f"lines {first}-{last}" if last > first else f"line {first}"
        # Line numbers are shown but not embedded: lines added above must not change a vector.
        return _Piece((*heading, where), heading, text, (part.uri,))

    def _fit_together(self, heading: tuple[str, ...], run: list[str], text: str, between: str) -> bool:
        """Whether `text` fits behind those of the run. Text side by side costs no more than each of it alone, which is
        known already; the whole is counted only where that is too much."""
        spent = self._cost(self._prefix(heading)) + sum(map(self._cost, run)) + self._cost(text)
        return spent <= self._window or self._fits(heading, between.join([*run, text]))

    def _fits(self, heading: tuple[str, ...], text: str) -> bool:
        # Sixty characters a token is more than any text has: what is longer need not be counted to be split.
        embedded = self._embedded(heading, text)
        return len(embedded) <= 60 * self._window and self._count(embedded) <= self._window

    def _fits_alone(self, heading: tuple[str, ...], text: str) -> bool:
        """As `_fits`, for text that will be asked about again."""
        cost = self._cost(text)
        return cost <= self._window and self._fit_together(heading, [], text, "")

    def _cost(self, text: str) -> int:
        """Tokens of a text by itself, counted once; above the window for one that is far too long to be counted."""
        if len(text) > 60 * self._window:
            return self._window + 1
        cost = self._costs.get(text)
        if cost is None:
            cost = self._costs[text] = self._count(unicodedata.normalize("NFC", text))
        return cost

    def _embedded(self, heading: tuple[str, ...], text: str) -> str:
        prefix = self._prefix(heading)
        # Composed, so that both spellings of a letter have one digest and one vector; what is shown stays as written.
        return unicodedata.normalize("NFC", f"{prefix}\n{text}" if prefix and text != prefix else text)

    def _prefix(self, heading: tuple[str, ...]) -> str:
        """Title and heading path, shortened from the right so that two thirds of the window are left for text."""
        known = self._prefixes.get(heading)
        if known is None:
            whole = " > ".join(x for x in (self.title, *heading) if x)
            known = self._prefixes[heading] = self._shortened(whole, self._window // 3)
        return known

    def _shortened(self, whole: str, limit: int) -> str:
        if len(whole) <= limit or self._count(whole) <= limit:
            return whole
        words = whole[: 8 * limit].split(" ")
        while len(words) > 1 and self._count(" ".join(words)) > limit:
            words = words[: max(1, len(words) * 3 // 4)]
        text = " ".join(words)
        while self._count(text) > limit and len(text) > 1:
            text = text[: len(text) // 2]
        return text


def _attribution(part: Part) -> str:
    name = part.author.name if part.author else ""
    day = part.at.astimezone(UTC).date().isoformat() if part.at else ""
    who = ", ".join(x for x in (name, day) if x)
    return f"{who}: " if who else ""


def _plain(text: str) -> list[str]:
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
