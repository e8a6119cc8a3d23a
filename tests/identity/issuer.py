"""An issuer on loopback that does what a test tells it: keys, how they are served, and tokens of any shape."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from core.settings import IssuerSettings
from query.identity import TokenVerifier

AUDIENCE = "api://context-engine"
T1, T2 = "11111111-0000-4000-8000-000000000001", "22222222-0000-4000-8000-000000000002"
IRIS, ADM = "a0a0a0a0-0000-4000-8000-00000000000a", "ad000000-0000-4000-8000-0000000000ad"


@cache
def rsa_key(name: str, bits: int = 2048) -> rsa.RSAPrivateKey:
    """A key that is made once a session."""
    return rsa.generate_private_key(public_exponent=65537, key_size=bits)


@cache
def ec_key(name: str) -> ec.EllipticCurvePrivateKey:
    """A key of P-256 that is made once a session."""
    return ec.generate_private_key(ec.SECP256R1())


def jwk(kid: str, key: Any = None, **more: Any) -> dict[str, Any]:
    """The public half as a JWK; by default that of `rsa_key(kid)`."""
    key = key or rsa_key(kid)
    kind = jwt.algorithms.ECAlgorithm if isinstance(key, ec.EllipticCurvePrivateKey) else jwt.algorithms.RSAAlgorithm
    made: dict[str, Any] = kind.to_jwk(key.public_key(), as_dict=True)
    made.pop("key_ops", None)
    return {**made, "kid": kid, "use": "sig", **more}


class TestIssuer:
    """Serves `keys` at `/keys`, and a discovery document; counts the requests for keys.

    `hanging`: an event that each answer of keys waits for. `answer`: what is sent for the keys instead of them.
    """

    __test__ = False

    def __init__(self) -> None:
        self.keys: list[dict[str, Any]] = [jwk("one")]
        self.fetched = 0
        self.discovered = 0
        self.hanging: threading.Event | None = None
        self.reached = threading.Event()
        self.answer: tuple[int, Mapping[str, str], bytes] | None = None
        self.issuer_told: str | None = None
        self.keys_told: str | None = None
        self.url = ""

    @property
    def keys_url(self) -> str:
        """Where the keys are."""
        return f"{self.url}/keys"

    def document(self) -> dict[str, Any]:
        """The discovery document."""
        return {"issuer": self.issuer_told or self.url, "jwks_uri": self.keys_told or self.keys_url}

    def respond(self, path: str) -> tuple[int, Mapping[str, str], bytes]:
        """The answer to a request."""
        if path == "/.well-known/openid-configuration":
            self.discovered += 1
            return 200, {}, json.dumps(self.document()).encode()
        self.fetched += 1
        self.reached.set()
        if self.hanging is not None:
            self.hanging.wait(30)
        return self.answer or (200, {}, json.dumps({"keys": self.keys}).encode())


@contextmanager
def serving() -> Iterator[TestIssuer]:
    """An issuer while the context lasts."""
    issuer = TestIssuer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, headers, body = issuer.respond(self.path)
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        issuer.url = f"http://127.0.0.1:{server.server_address[1]}"
        try:
            yield issuer
        finally:
            if issuer.hanging is not None:
                issuer.hanging.set()
            server.shutdown()
            thread.join()


def token(
    claims: Mapping[str, Any], *, kid: str | None = "one", key: Any = None, alg: str = "RS256", **headers: Any
) -> str:
    """Claims as a token, signed with `rsa_key(kid)` unless another is given; the value of a header."""
    now = int(time.time())
    full = {"aud": AUDIENCE, "iat": now - 5, "exp": now + 600, "azp": "agent", **claims}
    full = {name: value for name, value in full.items() if value is not None}
    more = {"kid": kid, **headers} if kid is not None else headers
    return f"Bearer {jwt.encode(full, key or rsa_key(kid or 'one'), algorithm=alg, headers=more)}"


def entra(tenant: str = T1, oid: str = IRIS, **more: Any) -> dict[str, Any]:
    """Claims of a person's token of Entra ID, version 2."""
    issuer = f"https://login.microsoftonline.com/{tenant}/v2.0"
    return {"iss": issuer, "tid": tenant, "oid": oid, "sub": "pairwise", "scp": "context.read", "ver": "2.0", **more}


def entra_v1(tenant: str = T1, oid: str = IRIS, **more: Any) -> dict[str, Any]:
    """The same, version 1."""
    own = {"iss": f"https://sts.windows.net/{tenant}/", "ver": "1.0", "appid": "agent", "azp": None, "appidacr": "0"}
    return entra(tenant, oid, **{**own, **more})


def verifier(*issuers: IssuerSettings, **more: Any) -> TokenVerifier:
    """What verifies tokens of these."""
    return TokenVerifier(issuers, required_scope="context.read", required_role="context.read", **more)
