"""docker-compose.yml: each process has its own plane's credentials and starts with them; no secret has a default,
nothing listens beyond loopback, nobody is root. (`tests/operations/test_server_processes.py` starts the same.)"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from ruamel.yaml import YAML
from typer.testing import CliRunner

from context_engine import planes
from context_engine.cli import app
from context_engine.health import PROCESSES
from core.settings import PREFIX, Settings, load_settings
from tests.support import server_stack

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docker-compose.yml").read_text("utf-8")
COMPOSE: dict[str, Any] = YAML(typ="safe", pure=True).load(TEXT)
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = {name: s for name, s in SERVICES.items() if s["image"] == "context-engine:local"}
ENGINE = (ROOT / "docker" / "Dockerfile").read_text("utf-8")
REALM: dict[str, Any] = json.loads((ROOT / "docker" / "keycloak" / "context-engine.json").read_text("utf-8"))
EXAMPLE = (ROOT / "docker" / "env.example").read_text("utf-8")
ISSUERS = (
    '[{"issuer": "http://127.0.0.1:8080/realms/context-engine", "tenant": "t", "audience": ["api://context-engine"]}]'
)
VARIABLE = re.compile(r"\$\{(\w+)(?::([?-])[^}]*)?\}")
PLANES = {
    "api": planes.API,
    "worker": planes.WORKER,
    "worker-access": planes.WORKER,
    "beat": planes.BEAT,
    "webhooks": planes.WEBHOOKS,
    "audit": planes.AUDIT,
}


def environment(name: str) -> dict[str, str]:
    """What a service gets where every variable is set."""

    def value(text: str) -> str:
        known = {"ISSUERS": ISSUERS, "PRINCIPAL_CACHE_KEY": "k" * 32}
        return VARIABLE.sub(lambda m: known.get(m[1], m[1].lower()), text)

    return {k: value(v) for k, v in SERVICES[name]["environment"].items() if v is not None}


def settings(name: str) -> Settings:
    """The settings of a service; ConfigError for one that does not exist."""
    return load_settings(environ=environment(name))


def test_it_is_a_compose_file() -> None:
    schema = json.loads((ROOT / "tests" / "docs" / "compose_schema.json").read_text("utf-8"))
    jsonschema.Draft7Validator(schema).validate(COMPOSE)


def test_it_starts_what_server_mode_is_made_of() -> None:
    assert set(SERVICES) == {*PLANES, "metrics", "migrate", "postgres", "qdrant", "redis", "query-cache", "keycloak"}
    ours = ("api", "worker", "beat", "webhooks", "audit")
    commands = {tuple(s["command"][:2]) for s in OURS.values() if s["command"][0] in ours}
    assert commands == {tuple(c[:2]) for c in server_stack.PROCESSES.values()}, "the tests start the same by hand"
    for service in OURS.values():
        asked = CliRunner().invoke(app, [*service["command"], "--help"])
        assert asked.exit_code == 0, asked.output


@pytest.mark.parametrize("name", PLANES)
def test_each_process_starts_with_what_it_is_given(name: str) -> None:
    planes.check(settings(name), PLANES[name])


@pytest.mark.parametrize("name", ["metrics", "migrate"])
def test_helpers_have_settings_that_exist(name: str) -> None:
    assert settings(name).postgres_url is not None


@pytest.mark.parametrize("name", ["api", "webhooks", "beat"])
def test_who_is_reached_from_outside_has_no_credential_of_a_source_and_no_key_that_writes(name: str) -> None:
    given = set(VARIABLE.findall(" ".join(v for v in SERVICES[name]["environment"].values() if v)))
    names = {variable for variable, _ in given}
    assert not names & {"AZURE_DEVOPS_PAT", "GRAPH_CLIENT_SECRET", "QDRANT_API_KEY", "POSTGRES_INGEST_PASSWORD"}
    assert not names & {"POSTGRES_SUPERUSER_PASSWORD"}


def test_the_query_plane_reads_the_record_and_the_index_by_keys_of_its_own() -> None:
    api, worker = settings("api"), settings("worker")
    assert api.qdrant_read_key != worker.qdrant_api_key
    assert api.postgres_query_url is not None
    assert "context_query" in api.postgres_query_url.get_secret_value()
    environ = SERVICES["qdrant"]["environment"]
    assert environ["QDRANT__SERVICE__READ_ONLY_API_KEY"] != environ["QDRANT__SERVICE__API_KEY"]
    assert "@redis:" not in json.dumps(SERVICES["api"])
    assert "redis" not in SERVICES["api"]["depends_on"]
    assert "broker" not in SERVICES["api"]["networks"]
    assert SERVICES["query-cache"]["networks"] == ["query"]
    assert [name for name, s in OURS.items() if "query" in s["networks"]] == ["api"]


@pytest.mark.parametrize("name", SERVICES)
def test_each_service_is_checked_for_health(name: str) -> None:
    check = SERVICES[name]["healthcheck"]
    if name == "migrate":
        assert (check, SERVICES[name]["restart"]) == ({"disable": True}, "no"), "it ends"
        return
    if name in OURS:
        assert check["test"][:4] == ["CMD", "python", "-m", "context_engine.health"]
        assert check["test"][4] in PROCESSES


@pytest.mark.parametrize("name", SERVICES)
def test_no_service_runs_as_root_or_gains_privileges(name: str) -> None:
    service = SERVICES[name]
    assert service.get("user", "root").split(":")[0] not in ("root", "0") or service["image"].endswith("-unprivileged")
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["cap_drop"] == ["ALL"]


@pytest.mark.parametrize("name", OURS)
def test_our_processes_can_not_write_into_their_image(name: str) -> None:
    service = OURS[name]
    assert service["read_only"] is True
    tmpfs = dict(t.partition(":")[::2] for t in service["tmpfs"])
    # Docker gives a tmpfs to root, with the mode of the folder in the image below it.
    assert tmpfs.get("/data", "uid=10001,").startswith("uid=10001,")
    places = {*tmpfs, *(v.split(":")[1] for v in service.get("volumes", ()))}
    assert {"/tmp", "/data"} <= places


def test_every_secret_comes_from_the_environment_and_must_be_set() -> None:
    for name, service in SERVICES.items():
        for variable, value in service["environment"].items():
            if value is None or not re.search(r"PASSWORD|_KEY|SECRET|PAT$|_URL$", variable):
                continue
            secret = re.search(r"PASSWORD|_KEY|SECRET|PAT$", variable) is not None or "@" in value
            kinds = {kind for _, kind in VARIABLE.findall(value)}
            if secret and name != "keycloak":
                assert kinds == {"?"}, (name, variable)
            assert secret is False or VARIABLE.search(value), (name, variable)
    # Interpolation knows no profiles: Keycloak asks for its own when it starts.
    guard = SERVICES["keycloak"]["entrypoint"][2]
    assert all(f'-z "$${name}"' in guard for name in ("KC_BOOTSTRAP_ADMIN_PASSWORD", "DEV_PASSWORD", "DEV_OBJECT_ID"))


def test_the_example_lists_what_has_to_be_set() -> None:
    wanted = {variable for variable, kind in VARIABLE.findall(TEXT) if kind == "?"}
    assert set(re.findall(r"^(\w+)=", EXAMPLE, re.MULTILINE)) == wanted
    mentioned = set(re.findall(r"^# (\w+)=", EXAMPLE, re.MULTILINE))
    assert mentioned == {v for v, kind in VARIABLE.findall(TEXT) if kind == "-"} | {f"{PREFIX}WEBHOOKS__PUBLIC_URL"}
    assert all(not value for value in re.findall(r"^\w+(?:PASSWORD|KEY|SECRET|PAT)=(.*)$", EXAMPLE, re.MULTILINE))
    issuers = re.search(r"^ISSUERS=(.+)$", EXAMPLE, re.MULTILINE)
    assert issuers is not None
    assert load_settings(environ={f"{PREFIX}ISSUERS": issuers[1]}).issuers


def test_images_are_pinned_and_ours_is_built_here() -> None:
    for name, service in SERVICES.items():
        assert name in OURS or re.search(r":v?\d+", service["image"]), name
    assert [name for name, s in SERVICES.items() if "build" in s] == ["migrate"]
    assert (ROOT / SERVICES["migrate"]["build"]["dockerfile"]).is_file()


def test_what_is_named_is_declared() -> None:
    for service in SERVICES.values():
        assert set(service["networks"]) <= set(COMPOSE["networks"])
        assert set(service.get("depends_on", ())) <= set(SERVICES)
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            assert (ROOT / source).is_file() if source.startswith(".") else source in COMPOSE["volumes"]
        for config in service.get("configs", ()):
            assert config["source"] in COMPOSE["configs"]


def test_the_database_has_a_role_for_each_plane() -> None:
    script = COMPOSE["configs"]["roles"]["content"]
    for role in ("context_ingest", "context_query", "context_hooks"):
        assert f"CREATE ROLE {role} LOGIN" in script
        assert any(f"//{role}:" in json.dumps(service) for service in OURS.values())
    assert set(re.findall(r"\\getenv \w+ (\w+)", script)) <= set(SERVICES["postgres"]["environment"])


def test_the_image_has_no_root_and_fetches_nothing_when_it_runs() -> None:
    final = ENGINE.rpartition("\nFROM ")[2]
    assert "USER 10001:10001" in final
    assert final.index("USER") < final.index("ENTRYPOINT")
    assert {"HF_HUB_OFFLINE=1", "TRANSFORMERS_OFFLINE=1", "CONTEXT_ENGINE_DATA=/data"} <= set(final.split())
    assert not re.search(r"\b(pip|curl|wget|apt-get)\b", final)
    assert all(re.search(r":\d", image) for image in re.findall(r"^FROM (\S+)", ENGINE, re.MULTILINE))
    copied = re.findall(r"^COPY (\w+) \1$", ENGINE, re.MULTILINE)
    let_in = re.findall(r"^!(\S+)$", (ROOT / ".dockerignore").read_text("utf-8"), re.MULTILINE)
    assert set(copied) <= set(let_in)
    assert set(copied) == {p.name for p in ROOT.iterdir() if (p / "__init__.py").is_file()} - {"tests", "benchmarks"}


def test_keycloak_makes_tokens_that_the_engine_accepts() -> None:
    [scope] = REALM["clientScopes"]
    assert scope["name"] == Settings().required_scope
    assert scope["attributes"]["include.in.token.scope"] == "true"
    mappers = {m["protocolMapper"]: m["config"] for m in scope["protocolMappers"]}
    audience = mappers["oidc-audience-mapper"]["included.custom.audience"]
    assert audience in json.loads(ISSUERS)[0]["audience"]
    assert audience in EXAMPLE
    assert mappers["oidc-usermodel-attribute-mapper"]["claim.name"] == "oid"
    assert mappers["oidc-hardcoded-claim-mapper"]["claim.name"] == "tid"
    [client] = REALM["clients"]
    assert client["optionalClientScopes"] == [scope["name"]]
    assert client["serviceAccountsEnabled"] is False
    wanted = set(re.findall(r"\$\{(\w+)\}", json.dumps(REALM)))
    assert wanted <= set(SERVICES["keycloak"]["environment"])
    profile = json.loads(
        REALM["components"]["org.keycloak.userprofile.UserProfileProvider"][0]["config"]["kc.user.profile.config"][0]
    )
    assert "oid" in {a["name"] for a in profile["attributes"]}
