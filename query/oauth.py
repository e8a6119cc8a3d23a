"""The engine as an OAuth 2.1 resource server: by which names it is reached, where its metadata is, how it challenges.

RFC 9728 (protected resource metadata) and RFC 6750 (bearer challenges), as the authorization chapter of the Model
Context Protocol asks for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from core.errors import ContextEngineError, ForbiddenError, IdentityError, IdentityReason

MCP_PATH: Final = "/mcp"
METADATA_PATH: Final = "/.well-known/oauth-protected-resource"
_LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "[::1]"})
_WILDCARDS: Final = frozenset({"", "0.0.0.0", "::", "[::]"})  # noqa: S104 (nothing is bound here)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtectedResource:
    """What clients are told before they have a token.

    `public_url` is the address by which they reach the API; where there is none, it is reached by the names of its own
    machine only, and the metadata name the one that was used. `hosts` are further names for the Host header (with a
    port, or for any port), `origins` further origins of web pages that may ask. `issuers` make the tokens; `scopes`
    are what a client asks them for, as they spell it.
    """

    issuers: tuple[str, ...]
    scopes: tuple[str, ...]
    public_url: str | None = None
    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()

    def knows_host(self, host: str) -> bool:
        """Whether a Host header names this engine. Another name is DNS rebinding, or a proxy that was not declared."""
        host = host.lower()
        name = host_name(host)
        if name in _LOOPBACK:
            return True
        if self.public_url is not None and name == host_name(urlsplit(self.public_url).netloc.lower()):
            return True
        known = {h.lower() for h in self.hosts if h not in _WILDCARDS}
        return bool(name) and (host in known or name in known)

    def knows_origin(self, origin: str) -> bool:
        """Whether pages of this origin may ask: those of this machine, of the public address, and those listed."""
        origin = origin.lower()
        try:
            parts = urlsplit(origin)
        except ValueError:  # brackets that hold no address
            return False
        if parts.scheme not in {"http", "https"} or parts.path or parts.query or parts.fragment or "@" in parts.netloc:
            return False
        if host_name(parts.netloc) in _LOOPBACK:
            return True
        if self.public_url is not None:
            public = urlsplit(self.public_url.lower())
            if (parts.scheme, parts.netloc) == (public.scheme, public.netloc):
                return True
        return origin in {o.lower().rstrip("/") for o in self.origins}

    def base(self, headers: Mapping[str, str], scheme: str) -> str | None:
        """The API's address without a slash at its end, for a request with these headers; None where it is unknown."""
        if self.public_url is not None:
            parts = urlsplit(self.public_url)
            return f"{parts.scheme}://{parts.netloc.lower()}{parts.path.rstrip('/')}"
        host = headers.get("host", "")
        return f"{scheme}://{host.lower()}" if self.knows_host(host) else None

    def metadata(self, base: str) -> dict[str, Any]:
        """The metadata document (RFC 9728, section 2) for an API at `base`."""
        return {
            "resource": f"{base}{MCP_PATH}",
            "authorization_servers": list(self.issuers),
            "scopes_supported": list(self.scopes),
            "bearer_methods_supported": ["header"],
            "resource_name": "Context engine",
        }

    def metadata_paths(self) -> tuple[str, ...]:
        """Where the metadata are served: at the root, and below it at the path of what they describe."""
        public = urlsplit(self.public_url).path.rstrip("/") if self.public_url else ""
        paths = dict.fromkeys((METADATA_PATH, METADATA_PATH + MCP_PATH, METADATA_PATH + public + MCP_PATH))
        return tuple(paths)

    def challenge(self, error: ContextEngineError, base: str | None) -> str | None:
        """The WWW-Authenticate header for a refusal: where the metadata are and which scopes are wanted.

        No error code where no credentials came (RFC 6750, section 3). None for refusals that no token mends.
        """
        params: list[tuple[str, str]] = []
        scopes = self.scopes
        match error:
            case IdentityError():
                if error.reason is not IdentityReason.MISSING:
                    params += [("error", "invalid_token"), ("error_description", error.reason.value)]
            case ForbiddenError():
                params.append(("error", "insufficient_scope"))
                if error.scope is not None:
                    scopes = (*scopes, self._spelt(error.scope))
            case _:
                return None
        if base is not None:
            parts = urlsplit(base)
            where = f"{parts.scheme}://{parts.netloc}{METADATA_PATH}{parts.path}{MCP_PATH}"
            params.append(("resource_metadata", where))
        params.append(("scope", " ".join(dict.fromkeys(scopes))))
        return "Bearer " + ", ".join(f'{name}="{value}"' for name, value in params)

    def _spelt(self, scope: str) -> str:
        """A scope as the issuer spells it: Entra puts the application's ID URI and a slash before it."""
        prefix, slash, _ = self.scopes[0].rpartition("/")
        return f"{prefix}{slash}{scope}"


def host_name(host: str) -> str:
    """The name in a Host header, without the port; "" where it is none. IPv6 addresses keep their brackets."""
    if host.startswith("["):
        name, bracket, port = host.partition("]")
        name += bracket
        port = port.removeprefix(":")
    else:
        name, _, port = host.partition(":")
    return name if not port or port.isdigit() else ""
