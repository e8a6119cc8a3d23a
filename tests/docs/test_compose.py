"""docker-compose.yml: no secret has a default, nothing listens beyond loopback, and its settings exist."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from core.settings import load_settings

FILE = Path(__file__).parents[2] / "docker-compose.yml"
TEXT = FILE.read_text("utf-8")
COMPOSE: dict[str, Any] = YAML(typ="safe", pure=True).load(TEXT)
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]


@pytest.mark.parametrize("name", SERVICES)
def test_each_service_is_checked_for_health(name: str) -> None:
    assert SERVICES[name]["healthcheck"]["test"]


@pytest.mark.parametrize("name", SERVICES)
def test_each_service_listens_on_loopback_only(name: str) -> None:
    assert all(port.startswith("127.0.0.1:") for port in SERVICES[name]["ports"])


@pytest.mark.parametrize("name", SERVICES)
def test_no_service_runs_as_root_or_gains_privileges(name: str) -> None:
    service = SERVICES[name]
    assert service.get("user", "root") != "root" or service["image"].endswith("-unprivileged")
    assert "no-new-privileges:true" in service["security_opt"]


def test_every_secret_comes_from_the_environment_and_must_be_set() -> None:
    for service in SERVICES.values():
        for name, value in service["environment"].items():
            if re.search(r"PASSWORD|_KEY", name):
                assert re.fullmatch(r"\$\{\w+:\?[^}]+\}", value), name


def test_images_are_pinned() -> None:
    assert all(re.search(r":v?\d+", service["image"]) for service in SERVICES.values())


def test_the_query_plane_has_a_key_that_only_reads() -> None:
    environment = SERVICES["qdrant"]["environment"]
    assert environment["QDRANT__SERVICE__READ_ONLY_API_KEY"] != environment["QDRANT__SERVICE__API_KEY"]


def test_what_is_mounted_is_declared() -> None:
    for service in SERVICES.values():
        for volume in service["volumes"]:
            assert volume.split(":")[0] in COMPOSE["volumes"]
        for config in service.get("configs", ()):
            assert config["source"] in COMPOSE["configs"]


def test_the_settings_that_it_tells_are_valid() -> None:
    told = dict(re.findall(r"^#\s+(CONTEXT_ENGINE_\w+)=(\S+)", TEXT, re.MULTILINE))
    assert len(told) == 5
    settings = load_settings(environ=told)
    assert settings.postgres_query_url is not None
    assert settings.qdrant_read_key is not None
