"""The secret that each subscription carries: made from its resource, so that it proves what it may tell of.

A notification's own resource says which subscriptions can have sent it; the secret must be that of one of them. So a
subscription that is just being made is known already, and one for users can't tell of a channel.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable
from typing import Final

_PURPOSE: Final = b"graph subscription\0"


def client_state(key: str, resource: str) -> str:
    """The secret of a subscription to a resource: 64 hex digits."""
    return hmac.digest(key.encode(), _PURPOSE + canonical(resource).encode(), hashlib.sha256).hex()


def canonical(resource: str) -> str:
    """A subscription's resource without options, case and leading slash, none of which say what it is."""
    return resource.partition("?")[0].strip().strip("/").lower()


def proves(key: str, state: str, resources: Iterable[str]) -> bool:
    """Whether a secret is that of a subscription to one of these resources; in the same time for any."""
    given = state.encode("utf-8", "replace")
    found = False
    for resource in resources:
        found |= hmac.compare_digest(given, client_state(key, resource).encode())
    return found
