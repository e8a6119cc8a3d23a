"""Leaks that other systems had: narrow readers crowded out, duplicates that keep the wrong copy, tokens in logs."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from starlette.testclient import TestClient

from core.access import ScopeId
from core.trust import IssuerSettings
from query.api import create_app
from query.identity import TokenVerifier
from tests.sandbox import small
from tests.support import border
from tests.support.border import wiki
from tests.support.guard_checks import Border, comparable
from tests.support.laboratory import Lab, days_ago, issuer_of, laboratory
from tests.support.postgres import PostgresServer
from tests.support.quick_embedder import QuickEmbedder


@pytest.fixture(scope="module")
def lab(postgres: PostgresServer) -> Iterator[Lab]:
    """A laboratory with the rules of the border, and nothing written yet."""
    with issuer_of(border.PEOPLE) as issuer, laboratory(postgres, QuickEmbedder(), issuer) as opened:
        opened.directory(border.ACCESS.containers(opened))
        opened.permissions(border.ACCESS.scopes(opened))
        yield opened


@pytest.mark.invariant("INV-4")
def test_of_two_equal_texts_the_one_that_may_be_read_stays(lab: Lab) -> None:
    """C064: the copy that the asker may read is there once, and nothing of the other, newer one is."""
    readable = wiki(1, "Fuel", "Fuel cut-off is 14:00 at every berth of the harbor", "open", modified_at=days_ago(30))
    lab.write([readable])
    alone = lab.ask(border.ASKER, "fuel cut-off")
    hidden = [
        replace(
            readable, uri=f"{readable.uri}{n}", title="Zirkonfuel", scope=ScopeId("private"), modified_at=days_ago(1)
        )
        for n in range(3)
    ]
    lab.write(hidden)
    both = lab.ask(border.ASKER, "fuel cut-off")
    assert [e["uri"] for e in both["evidence"]] == [readable.uri]
    assert comparable(both) == comparable(alone)
    assert "zirkonfuel" not in json.dumps(both).lower()
    assert len(lab.ask(border.OTHER, "fuel cut-off")["evidence"]) == 1, "who may read all copies gets them as one"
    for item in (readable, *hidden):
        lab.items.tombstone([item.uri], at=days_ago(0), reason="over", stated=False)


@pytest.mark.invariant("INV-3")
def test_who_may_read_little_finds_it_among_much_that_is_nearer(lab: Lab) -> None:
    """C061: the search is filtered before it is cut, so that hundreds of better matches don't crowd out five."""
    own = [wiki(10 + n, f"Window {n}", f"Settlement window, kept by berth {n}", "open") for n in range(5)]
    crowd = [
        wiki(500 + n, "Settlement window", f"Settlement window settlement window {n}", "private") for n in range(160)
    ]
    lab.write([*own, *crowd])
    bundle = lab.ask(border.ASKER, "settlement window", max_tokens=20_000)
    found = {e["uri"] for e in bundle["evidence"]} | {p["uri"] for p in bundle["more"]["items"]}
    assert found == {item.uri for item in own}


@pytest.fixture
def broken_issuer() -> Iterator[str]:
    """An issuer's keys that come as an error which quotes a secret."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps({"error": "server_error", "access_token": "zz-secret-zz"}).encode()
            self.send_response(500)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/keys"
    server.shutdown()
    server.server_close()
    thread.join()


def test_no_log_line_entry_or_error_holds_a_token_or_what_an_upstream_said(
    at_the_border: Border, broken_issuer: str, caplog: pytest.LogCaptureFixture
) -> None:
    """C112: neither where all is well nor where the issuer's own error quotes a secret."""
    lab = at_the_border.whole
    token = lab.token(border.ASKER)
    issuer = IssuerSettings(
        issuer=lab.sandbox.issuer, tenant=small.TENANT, audience=("api://context-engine",), jwks_uri=broken_issuer
    )
    verifier = TokenVerifier([issuer], required_scope="context.read", required_role="context.read")
    service = replace(lab.services.service, verifier=verifier)
    client = TestClient(
        create_app(replace(lab.services, service=service)), base_url="http://127.0.0.1", raise_server_exceptions=False
    )
    told = []
    with caplog.at_level(logging.DEBUG):
        for used, status in ((lab.client, 200), (client, 503)):
            for method, path in (("POST", "/v1/context"), ("GET", "/v1/people")):
                body = {"question": "invoices"} if method == "POST" else None
                params = {"topic": "invoices"} if method == "GET" else None
                headers = {"Authorization": f"Bearer {token}"}
                answer = used.request(method, path, json=body, params=params, headers=headers)
                assert answer.status_code == status, answer.text
                told.append(f"{answer.headers} {answer.text}")
    logged = "\n".join(f"{r.getMessage()} {r.exc_text or ''} {r.args}" for r in caplog.records)
    with lab.ingest.connection() as connection:
        rows = [dict(r) for r in connection.execute("SELECT * FROM audit").fetchall()]
    assert rows
    pieces = (*(p for p in token.split(".") if len(p) > 8), "zz-secret-zz")
    for where in (logged, *told, json.dumps(rows, default=str)):
        assert [p[:12] for p in pieces if p in where] == []
