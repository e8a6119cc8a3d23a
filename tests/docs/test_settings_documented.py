"""docs/settings.md names every setting with its default, and none that does not exist."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from core.guards import LateBindingSettings, RateLimitSettings
from core.settings import (
    ApplicationSettings,
    AzureDevOpsSettings,
    GraphSettings,
    IssuerSettings,
    Settings,
    WebhookSettings,
    load_settings,
)

PAGE = (Path(__file__).parents[2] / "docs" / "settings.md").read_text("utf-8")
TABLES: dict[str, type[BaseModel]] = {
    "Top level": Settings,
    "`[[issuers]]`": IssuerSettings,
    "`[[applications]]`": ApplicationSettings,
    "`[azure_devops]`": AzureDevOpsSettings,
    "`[graph]`": GraphSettings,
    "`[webhooks]`": WebhookSettings,
    "`[late_binding]`": LateBindingSettings,
    "`[rate_limits]`": RateLimitSettings,
}
ROW = re.compile(r"^\| `(\w+)` \| (.+?) \| (.+) \|$", re.MULTILINE)


def section(title: str) -> str:
    """The text below a heading, up to the next."""
    return PAGE.split(f"## {title}\n", 1)[1].split("\n## ", 1)[0]


def rows(title: str) -> dict[str, str]:
    """Default as written, by setting."""
    return {name: default for name, default, _ in ROW.findall(section(title))}


@pytest.mark.parametrize("title", TABLES)
def test_each_setting_is_in_the_table_and_no_other(title: str) -> None:
    assert set(rows(title)) == set(TABLES[title].model_fields)


@pytest.mark.parametrize("title", TABLES)
def test_defaults_are_those_of_the_code(title: str) -> None:
    model = TABLES[title]
    for name, written in rows(title).items():
        field = model.model_fields[name]
        if field.is_required():
            assert written == "required", name
        elif field.default is None:
            assert written == "–", name
        elif isinstance(field.default, BaseModel):
            assert written == "see below", name
        else:
            assert plain(field.default) == tomllib.loads(f"x = {written.strip('`')}")["x"], name


def test_the_example_is_a_valid_configuration(tmp_path: Path) -> None:
    example = PAGE.split("```toml\n", 1)[1].split("```", 1)[0]
    file = tmp_path / "engine.toml"
    file.write_text(example, "utf-8")
    secrets = {"CONTEXT_ENGINE_AZURE_DEVOPS__PAT": "x", "CONTEXT_ENGINE_GRAPH__CLIENT_SECRET": "y"}
    assert all(name in PAGE for name in secrets)
    settings = load_settings(file=file, environ=secrets)
    assert settings.azure_devops is not None
    assert settings.graph is not None
    assert settings.issuers


def plain(value: Any) -> Any:
    """As TOML would hold it."""
    match value:
        case tuple():
            return list(value)
        case Path():
            return str(value)
    return value
