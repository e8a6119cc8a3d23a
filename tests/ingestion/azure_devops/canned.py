"""An organization that answers from a table: for answers that the sandbox, which is well-behaved, does not give."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from pydantic import SecretStr

from core.settings import AzureDevOpsSettings
from ingestion.azure_devops.client import AdoClient
from ingestion.azure_devops.connector import AzureDevOpsConnector

TENANT = "0f0f0f0f-1111-4222-8333-444444444444"
PROJECT = "aaaaaaaa-0000-4000-8000-000000000001"
ROOT = "bbbbbbbb-0000-4000-8000-000000000001"
# Where the SDK finds what it is used for.
LOCATIONS = [
    ("e81700f7-3be2-46de-8624-2eb35882fcaa", "Location", "ResourceAreas", "_apis/{resource}/{areaId}"),
    (
        "ce7b9f95-fde9-4be8-a86d-83b366f0b87a",
        "Security",
        "SecurityNamespaces",
        "_apis/{resource}/{securityNamespaceId}",
    ),
    ("28010c54-d0c0-4c89-a5b0-1c9e188b9fb7", "IMS", "Identities", "_apis/{resource}/{identityId}"),
    ("a70579d1-f53a-48ee-a5be-7be8659023b9", "wit", "classificationNodes", "{project}/_apis/{area}/{resource}"),
]
GIT, AREA, OF_PROJECT = (
    "2e9eb7ed-3c0a-47d4-87c1-0ffdd275fd87",
    "83e28ad4-2d72-4ceb-97b0-c7726d5502c3",
    "52d39943-cb85-4d7f-8fa8-c6baac873819",
)

Table = Mapping[str, Any]


def namespaces(git: int = 2, area: int = 16, project: int = 1) -> dict[str, Any]:
    """The namespaces with the bits of their read actions."""
    rows = [(GIT, "GenericRead", git), (AREA, "WORK_ITEM_READ", area), (OF_PROJECT, "GENERIC_READ", project)]
    return listed(
        *(
            {"namespaceId": n, "name": n, "actions": [{"bit": 1 << 20, "name": "Other"}, {"bit": bit, "name": action}]}
            for n, action, bit in rows
        )
    )


def listed(*rows: Any) -> dict[str, Any]:
    """A collection as the service wraps it."""
    return {"count": len(rows), "value": list(rows)}


def acl(token: str, entries: Mapping[str, tuple[int, int]], *, inherit: bool = True) -> dict[str, Any]:
    """An access control list: descriptor → (allow, deny)."""
    aces = {d: {"descriptor": d, "allow": allow, "deny": deny} for d, (allow, deny) in entries.items()}
    return {"token": token, "inheritPermissions": inherit, "acesDictionary": aces}


def base_table() -> dict[str, Any]:
    """One private project with a root area and one repo, which nobody may read yet. Keys are patterns of paths."""
    return {
        r"/_apis/resourceareas": listed(),
        r"/_apis/securitynamespaces": namespaces(),
        r"/_apis/projects": listed(
            {"id": PROJECT, "name": "Fjordline", "state": "wellFormed", "visibility": "private"}
        ),
        r"/_apis/git/repositories": listed(
            {"id": "R1", "name": "repo-a", "project": {"id": PROJECT}, "defaultBranch": "refs/heads/main"}
        ),
        r"/_apis/wiki/wikis": listed(),
        r"/[^/]+/_apis/wit/classificationnodes": listed(
            {"id": 7, "identifier": ROOT, "name": "Fjordline", "structureType": "area", "hasChildren": False}
        ),
        rf"/_apis/accesscontrollists/{GIT}": listed(),
        rf"/_apis/accesscontrollists/{AREA}": listed(),
        rf"/_apis/accesscontrollists/{OF_PROJECT}": listed(),
        r"/_apis/graph/(users|groups|serviceprincipals)": listed(),
        r"/_apis/identities": listed(),
        r"/_apis/graph/memberships/.*": listed(),
        r"/_apis/(user|serviceprincipal)entitlements": {"members": [], "continuationToken": None},
    }


@contextmanager
def organization(table: Table, **changes: Any) -> Iterator[AzureDevOpsConnector]:
    """Serve the table; answers may be functions of the query, or (status, headers, body)."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer()

        def do_POST(self) -> None:
            self._answer()

        def do_OPTIONS(self) -> None:
            rows = [
                {"id": i, "area": a, "resourceName": r, "routeTemplate": t, "resourceVersion": 4}
                | {"minVersion": "1.0", "maxVersion": "7.2", "releasedVersion": "7.1"}
                for i, a, r, t in LOCATIONS
            ]
            self._write(200, {}, listed(*rows))

        def _answer(self) -> None:
            parts = urlsplit(self.path)
            length = int(self.headers.get("Content-Length") or 0)
            body = self.rfile.read(length)
            for pattern, answer in table.items():
                if re.fullmatch(pattern, parts.path, re.IGNORECASE):
                    if callable(answer):
                        query = {k.lower(): v[0] for k, v in parse_qs(parts.query).items()}
                        answer = answer({**query, "body": json.loads(body) if body else None})
                    self._write(*(answer if isinstance(answer, tuple) else (200, {}, answer)))
                    return
            self._write(404, {}, {"message": f"no answer for {parts.path}"})

        def _write(self, status: int, headers: Mapping[str, str], body: Any) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            for name, value in {"Content-Type": "application/json", **headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            """Nothing is logged."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        threading.Thread(target=http.serve_forever, args=(0.01,), daemon=True).start()
        settings = AzureDevOpsSettings(
            organization="novaruud",
            base_url=f"http://127.0.0.1:{http.server_port}",
            tenant=TENANT,
            pat=SecretStr("p"),
            **changes,
        )
        client = AdoClient(settings, sleep=lambda _: None, now=lambda: 0.0, attempts=2)
        connector = AzureDevOpsConnector(settings, client=client)
        try:
            yield connector
        finally:
            connector.close()
            http.shutdown()
