"""The second world uses every corner of the format, and its golden questions name only what is there."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from fixtures.sandbox.lookup import Lookup
from fixtures.sandbox.refs import RefError
from fixtures.sandbox.world import load_world, read_yaml
from fixtures.sandbox.world_models import World

FIXTURES = Path(__file__).parents[2] / "fixtures"
HAVENLICHT = FIXTURES / "worlds" / "havenlicht"
SCHEMA: dict[str, Any] = json.loads((FIXTURES / "sandbox" / "world.schema.json").read_text(encoding="utf-8"))
WORLD = read_yaml(HAVENLICHT / "world.yaml")
QUESTIONS: list[dict[str, Any]] = read_yaml(HAVENLICHT / "questions.yaml")["questions"]
SOURCES = {"work_items", "wikis", "code", "pull_requests", "teams"}


@pytest.fixture(scope="module", name="world")
def fixture_world() -> World:
    """The loaded world; no test changes it."""
    return load_world(HAVENLICHT)


def _resolve(schema: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """Follow a $ref; the name of its definition stands for the place."""
    name = ""
    while "$ref" in schema:
        name = schema["$ref"].removeprefix("#/$defs/")
        schema = SCHEMA["$defs"][name]
    return name, schema


def _offered(schema: Mapping[str, Any], place: str, seen: set[str]) -> Iterator[str]:
    """Yield every name and every enum value that the schema offers, by the definition where it stands."""
    name, schema = _resolve(schema)
    if name in seen:
        return
    seen = seen | {name} if name else seen
    place = name or place
    for value in schema.get("enum", ()):
        yield f"{place}={value}"
    for key, inner in schema.get("properties", {}).items():
        yield f"{place}.{key}"
        yield from _offered(inner, f"{place}.{key}", seen)
    for part in ("items", "additionalProperties"):
        if isinstance(schema.get(part), Mapping):
            yield from _offered(schema[part], f"{place}[]", seen)


def _used(schema: Mapping[str, Any], value: Any, place: str) -> Iterator[str]:
    """Yield what of the schema a value uses, in the words of `_offered`."""
    name, schema = _resolve(schema)
    place = name or place
    if "enum" in schema:
        yield f"{place}={value}"
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if key in schema.get("properties", {}):
                yield f"{place}.{key}"
                yield from _used(schema["properties"][key], inner, f"{place}.{key}")
            elif isinstance(schema.get("additionalProperties"), Mapping):
                yield from _used(schema["additionalProperties"], inner, f"{place}[]")
    elif isinstance(value, list) and "items" in schema:
        for inner in value:
            yield from _used(schema["items"], inner, f"{place}[]")


def _refs(value: Any) -> Iterator[str]:
    """Yield every text in an expectation that names an item."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for inner in value:
            yield from _refs(inner)
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _refs(inner)


def test_the_world_is_valid_by_the_schema() -> None:
    assert [error.message for error in Draft202012Validator(SCHEMA).iter_errors(WORLD)] == []


def test_the_world_uses_every_name_and_every_value_that_the_schema_offers() -> None:
    assert set(_offered(SCHEMA, "world", set())) - set(_used(SCHEMA, WORLD, "world")) == set()


def test_every_kind_of_content_is_used_in_commits() -> None:
    repos = [repo for p in WORLD["azure_devops"]["projects"].values() for repo in p.get("repos", {}).values()]
    contents = [content for repo in repos for c in repo["commits"] for content in c["files"].values()]

    assert {"str", "NoneType", "file", "base64"} == {
        next(iter(content)) if isinstance(content, Mapping) else type(content).__name__ for content in contents
    }


def test_keys_that_yaml_1_1_reads_as_something_else_stay_texts(world: World) -> None:
    assert world.people["no"].name == "Noor el Idrissi"
    assert world.people["mees"].joined == "2027-03-01"
    assert world.now.isoformat() == "2027-03-15T07:30:00+00:00"


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question["id"])
def test_a_question_names_only_what_the_world_has(world: World, question: dict[str, Any]) -> None:
    lookup = Lookup(world)
    for event in world.events:
        if event.post is not None:
            lookup.posted.setdefault(lookup.channel(event.post.channel), {})[event.post.message.key] = (
                event.post.message
            )
    expect = question["expect"]
    items = {key: expect.get(key) for key in ("evidence", "absent", "first", "order", "receipts", "conflicts")}
    items |= {key: expect.get(key) for key in ("superseded", "stale")}
    wrong = []
    for text in _refs(items):
        try:
            lookup.ref(text)
        except RefError as error:
            wrong.append(str(error))

    assert wrong == []
    assert question["as"] in world.people
    assert set(expect.get("people", [])) <= set(world.people)
    assert expect.get("fallback", question["as"]) in world.people
    assert set(expect.get("gaps", [])) <= SOURCES
    assert question.get("after") in {None, *(event.id for event in world.events)}


def test_question_ids_are_unique_and_at_least_eight_ask_for_absence() -> None:
    ids = [question["id"] for question in QUESTIONS]

    assert len(ids) == len(set(ids))
    assert sum("absent" in question["expect"] for question in QUESTIONS) >= 8
