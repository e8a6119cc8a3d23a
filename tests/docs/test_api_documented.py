"""docs/api.md names every field of the bundle, the request and an item, and every reason for a refusal."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pydantic import BaseModel

from core import bundle, views
from core.errors import IdentityReason

PAGE = (Path(__file__).parents[2] / "docs" / "api.md").read_text("utf-8")
NAMED = set(re.findall(r"`([a-z_]+)`", PAGE))
MODELS = sorted(
    (
        m
        for module in (bundle, views)
        for m in vars(module).values()
        if isinstance(m, type) and issubclass(m, BaseModel) and m.__module__ == module.__name__ and m.model_fields
    ),
    key=lambda m: m.__name__,
)


def test_the_bundle_is_among_the_models() -> None:
    assert {bundle.Bundle, bundle.Evidence, bundle.ContextRequest, views.ItemView} <= set(MODELS)


@pytest.mark.parametrize("model", MODELS, ids=lambda m: m.__name__)
def test_every_field_is_named(model: type[BaseModel]) -> None:
    fields = {field.alias or name for name, field in model.model_fields.items()}
    assert fields - NAMED == set()


def test_every_reason_for_refusing_a_token_is_named() -> None:
    assert {r.value for r in IdentityReason} - NAMED == set()


def test_every_intent_and_kind_is_named() -> None:
    assert {x.value for x in bundle.Intent} | {x.value for x in bundle.Temporal} <= NAMED
    assert {x.value for x in bundle.ItemKind} <= NAMED
