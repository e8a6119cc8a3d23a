"""A provider that nobody here wrote, as a process, and the way in which a person's agent gets tokens from it."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs, urljoin, urlsplit

import httpx

from tests.support.node import FOLDER

OURS, OTHER = "https://context-engine.example/mcp", "https://another.example/mcp"
CALLBACK = "http://127.0.0.1/callback"
_VERIFIER = "a-code-verifier-of-at-least-forty-three-characters"


@dataclass(frozen=True)
class Tokens:
    """What a sign-in gives."""

    access: str
    identity: str


@dataclass(frozen=True)
class Provider:
    """A running provider."""

    issuer: str

    @property
    def port(self) -> int:
        """Where it listens."""
        port = urlsplit(self.issuer).port
        assert port is not None
        return port

    def sign_in(self, person: str, *, resource: str = OURS, scope: str = "openid context.read") -> Tokens:
        """Authorization code with PKCE, through the provider's own pages, as a browser would."""
        challenge = base64.urlsafe_b64encode(hashlib.sha256(_VERIFIER.encode()).digest()).rstrip(b"=").decode()
        asked = {
            "client_id": "agent", "response_type": "code", "redirect_uri": CALLBACK, "scope": scope, "nonce": "n-1",
            "resource": resource, "code_challenge": challenge, "code_challenge_method": "S256",
        }  # fmt: skip
        with httpx.Client(trust_env=False, timeout=20) as browser:
            answer = browser.get(f"{self.issuer}/auth", params=asked)
            for _ in range(12):
                where = answer.headers.get("location")
                if where is not None and where.startswith(CALLBACK):
                    break
                if where is not None:
                    answer = browser.get(urljoin(str(answer.url), where))
                    continue
                assert answer.status_code == 200, answer.text
                action = re.search(r'action="([^"]+)"', answer.text)
                prompt = re.search(r'name="prompt" value="(\w+)"', answer.text)
                assert action is not None, answer.text
                assert prompt is not None, answer.text
                form = {"prompt": prompt[1], "login": person, "password": "anything"}
                answer = browser.post(urljoin(str(answer.url), action[1]), data=form)
            [code] = parse_qs(urlsplit(answer.headers["location"]).query)["code"]
            grant = {
                "grant_type": "authorization_code", "code": code, "redirect_uri": CALLBACK, "client_id": "agent",
                "code_verifier": _VERIFIER, "resource": resource,
            }  # fmt: skip
            told = browser.post(f"{self.issuer}/token", data=grant).raise_for_status().json()
        return Tokens(access=told["access_token"], identity=told["id_token"])

    def machine(self, *, resource: str = OURS, scope: str = "context.read") -> str:
        """The token of an application on its own."""
        form = {"grant_type": "client_credentials", "resource": resource, "scope": scope}
        answer = httpx.post(
            f"{self.issuer}/token", data=form, auth=("machine", "machine-secret"), trust_env=False, timeout=20
        )
        return str(answer.raise_for_status().json()["access_token"])


@contextmanager
def provider(node: Path, *, port: int = 0, skew: int = 0, directory_id: str) -> Iterator[Provider]:
    """A provider while the context lasts, with keys of its own; `skew`: seconds by which its clock is ahead."""
    environment = {
        "PATH": os.environ["PATH"],
        "PORT": str(port),
        "SKEW": str(skew),
        "RESOURCES": json.dumps([OURS, OTHER]),
        "DIRECTORY_ID": directory_id,
    }
    with subprocess.Popen(
        [str(node), "issuer.mjs"],
        cwd=FOLDER,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        try:
            # It also prints what it thinks of being run for development.
            line = next(line for line in process.stdout if line.startswith("{"))
            yield Provider(json.loads(line)["issuer"])
        finally:
            process.stdin.close()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
