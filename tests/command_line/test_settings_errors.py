"""What is wrong with settings is told by name, with how to mend it, in words that aren't the programming language's."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.errors import ConfigError
from core.settings import load_settings

GRAPH = '[graph]\ntenant = "t"\nclient_id = "c"\n'


def refusal(tmp_path: Path, text: str) -> str:
    """What is said of a file that holds this text."""
    file = tmp_path / "engine.toml"
    file.write_text(text, "utf-8")
    with pytest.raises(ConfigError) as caught:
        load_settings(file=file, environ={})
    return str(caught.value)


def test_a_missing_secret_is_told_with_its_variable(tmp_path: Path) -> None:
    assert refusal(tmp_path, GRAPH) == (
        "graph.client_secret: required, and not set. "
        "Set it in the file, or CONTEXT_ENGINE_GRAPH__CLIENT_SECRET in the environment"
    )
    environment = {"CONTEXT_ENGINE_GRAPH__CLIENT_SECRET": "s"}
    graph = load_settings(file=tmp_path / "engine.toml", environ=environment).graph
    assert graph is not None
    assert graph.client_secret.get_secret_value() == "s"


def test_an_element_of_a_list_has_no_variable(tmp_path: Path) -> None:
    told = refusal(tmp_path, '[[applications]]\ntenant = "t"\naccount = "a"\n')
    assert told == "applications.0.spaces: required, and not set. Set it in the file"


def test_one_value_where_a_list_is_wanted_is_told_as_that(tmp_path: Path) -> None:
    assert refusal(tmp_path, 'labels = "Secret"') == 'labels: has to be a list. Write ["…"], also for one value'
