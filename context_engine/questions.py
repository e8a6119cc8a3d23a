"""Golden questions: the file format, with clear errors for what is wrong in it."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from core.bundle import Intent, Temporal
from core.errors import InputError
from core.items import Source


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class FocusRef(_Model):
    """What the asker looks at, in a world's words; `item` is a reference such as work_item:4711."""

    url: str | None = None
    file: str | None = None
    channel: str | None = None
    item: str | None = None


class TermMeans(_Model):
    """The first meaning that must be offered for a term."""

    term: str
    means: str


class SupersededBy(_Model):
    """An item that must be marked as replaced."""

    item: str
    by: str


class Expect(_Model):
    """What a careful human would call right; every key is optional."""

    evidence: tuple[str, ...] = ()
    within: int | None = Field(default=None, ge=1)
    first: str | None = None
    order: tuple[tuple[str, str], ...] = ()
    absent: tuple[str, ...] = ()
    people: tuple[str, ...] = ()
    receipts: tuple[str, ...] = ()
    fallback: str | None = None
    glossary: tuple[TermMeans, ...] = ()
    conflicts: tuple[tuple[str, str], ...] = ()
    superseded: tuple[SupersededBy, ...] = ()
    stale: tuple[str, ...] = ()
    gaps: tuple[Source, ...] = ()
    intent: Intent | None = None
    temporal: Temporal | None = None
    outcome: str | int | None = None


class Question(_Model):
    """One golden question."""

    id: str
    as_: str = Field(alias="as")
    ask: str
    focus: FocusRef | tuple[FocusRef, ...] | None = None
    after: str | None = None
    as_of: datetime | None = None
    max_tokens: int | None = None
    expect: Expect = Expect()


class QuestionFile(_Model):
    """A questions.yaml."""

    world: str
    questions: tuple[Question, ...]


def load_questions(path: Path) -> QuestionFile:
    """Read and check a questions file. Raises InputError naming file, path and what is allowed."""
    try:
        data: Any = YAML(typ="safe", pure=True).load(path.read_text("utf-8"))
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError) as e:
        raise InputError("there is no such file", where=str(path)) from e
    except (YAMLError, UnicodeDecodeError) as e:
        raise InputError(f"not valid YAML: {' '.join(str(e).split())}", where=str(path)) from e
    try:
        questions = QuestionFile.model_validate(data)
    except ValidationError as e:
        first = e.errors()[0]
        place = ".".join(str(x) for x in first["loc"]) or "the file"
        known = f"Known keys: {', '.join(_known(first['loc']))}" if first["type"] == "extra_forbidden" else None
        why = "a list is needed here" if first["type"] == "tuple_type" else first["msg"]
        raise InputError(f"{place}: {why}", where=str(path), mend=known) from e
    seen: set[str] = set()
    for question in questions.questions:
        if question.id in seen:
            raise InputError(f"two questions have the id {question.id!r}", where=str(path))
        seen.add(question.id)
    return questions


def _known(loc: tuple[int | str, ...]) -> list[str]:
    names = [x for x in loc[:-1] if isinstance(x, str)]
    model: type[BaseModel] = QuestionFile
    if "expect" in names:
        model = Expect
    elif "focus" in names:
        model = FocusRef
    elif "questions" in names:
        model = Question
    return sorted(f.alias or name for name, f in model.model_fields.items())
