"""How often one asker, and one agent, may ask: against gathering in bulk what each may read in single pieces."""

from __future__ import annotations

from typing import Protocol

from core.principals import VerifiedAsker


class RateLimiter(Protocol):
    """Counts requests. What was asked, and whether anything was found, plays no part."""

    def take(self, asker: VerifiedAsker) -> None:
        """Count one request of this asker and of the agent that asks for them.

        Raises RateLimitedError where either has used up its share, StoreUnavailableError where nobody can tell.
        """
        ...


class Unlimited:
    """Lets everything through."""

    def take(self, asker: VerifiedAsker) -> None:
        """Count nothing."""
