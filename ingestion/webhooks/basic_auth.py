"""HTTP basic authentication (RFC 7617), compared in the same time for right and wrong."""

from __future__ import annotations

import base64
import binascii
import hmac

_LONGEST = 4096


def is_allowed(header: str | None, user: str, password: str) -> bool:
    """Whether an Authorization header carries this user and password."""
    scheme, _, given = (header or "").partition(" ")
    if scheme.lower() != "basic" or len(given) > _LONGEST:
        return False
    try:
        decoded = base64.b64decode(given.strip(), validate=True)
    except (binascii.Error, ValueError):
        return False
    return hmac.compare_digest(decoded, f"{user}:{password}".encode())
