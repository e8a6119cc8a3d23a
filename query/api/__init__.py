"""The HTTP API: thin routes over the context engine; errors as problem+json (RFC 9457)."""

from query.api.app import ApiServices, create_app

__all__ = ["ApiServices", "create_app"]
