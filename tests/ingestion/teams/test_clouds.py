"""Where each cloud is. Source: Microsoft Graph documentation, "National cloud deployments"."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from core.settings import GraphSettings
from ingestion.teams.clouds import Endpoints, endpoints


def _endpoints(**given: Any) -> Endpoints:
    return endpoints(GraphSettings.model_validate({"tenant": "t", "client_id": "c", "client_secret": "s", **given}))


@pytest.mark.parametrize(
    ("cloud", "authority", "graph"),
    [
        ("global", "login.microsoftonline.com", "graph.microsoft.com"),
        ("usgov", "login.microsoftonline.us", "graph.microsoft.us"),
        ("dod", "login.microsoftonline.us", "dod-graph.microsoft.us"),
        ("china", "login.chinacloudapi.cn", "microsoftgraph.chinacloudapi.cn"),
    ],
)
def test_a_cloud_gives_all_addresses(cloud: str, authority: str, graph: str) -> None:
    wanted = Endpoints(f"https://{authority}", f"https://{graph}/v1.0", f"https://{graph}/.default")
    assert _endpoints(cloud=cloud) == wanted
    # An endpoint of one's own is asked for a token of the same cloud's Graph, wherever requests are sent.
    assert _endpoints(cloud=cloud, base_url="http://127.0.0.1:1/v1.0", token_url="http://x").scope == wanted.scope


def test_the_global_one_is_meant_where_none_is_named() -> None:
    assert _endpoints() == _endpoints(cloud="global")


def test_addresses_that_are_set_win_and_the_token_is_for_the_host_that_it_is_sent_to() -> None:
    own = _endpoints(cloud="china", base_url="https://graph.microsoft.us/v1.0/", authority="https://login.example/")
    assert own == Endpoints(
        "https://login.example", "https://graph.microsoft.us/v1.0", "https://graph.microsoft.us/.default"
    )


def test_a_cloud_that_nobody_knows_is_refused() -> None:
    with pytest.raises(ValidationError, match="cloud"):
        _endpoints(cloud="germany")
