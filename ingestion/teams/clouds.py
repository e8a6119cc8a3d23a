"""Where a cloud signs applications in and where its Graph is. Facts: Microsoft Graph documentation, "National cloud
deployments". Tokens do not cross clouds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from core.settings import GraphSettings


@dataclass(frozen=True, slots=True)
class Endpoints:
    """Addresses without a slash at their end: `graph` with the version, `authority` without a tenant; `scope` is what
    a token for Graph is asked for."""

    authority: str
    graph: str
    scope: str


def _cloud(authority: str, graph: str) -> Endpoints:
    return Endpoints(f"https://{authority}", f"https://{graph}/v1.0", f"https://{graph}/.default")


CLOUDS: Final = {
    "global": _cloud("login.microsoftonline.com", "graph.microsoft.com"),
    "usgov": _cloud("login.microsoftonline.us", "graph.microsoft.us"),
    "dod": _cloud("login.microsoftonline.us", "dod-graph.microsoft.us"),
    "china": _cloud("login.chinacloudapi.cn", "microsoftgraph.chinacloudapi.cn"),
}


def endpoints(settings: GraphSettings) -> Endpoints:
    """Those of the setting's cloud, or the ones that are set. A token is for the host that it is sent to, except
    where an endpoint of its own gives it: that one decides itself, and is asked as the cloud's would be."""
    cloud = CLOUDS[settings.cloud]
    graph = (settings.base_url or cloud.graph).rstrip("/")
    own = settings.token_url is None
    return Endpoints(
        authority=(settings.authority or cloud.authority).rstrip("/"),
        graph=graph,
        scope=f"https://{urlsplit(graph).netloc}/.default" if own else cloud.scope,
    )
