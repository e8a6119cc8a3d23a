"""What may become of a delivery, and the reason that goes into the log: never a text or secret of it."""

from __future__ import annotations

from enum import StrEnum


class Outcome(StrEnum):
    """How a delivery, or one item of a batch, ended; the words of the counters."""

    ACCEPTED = "accepted"  # kept
    DOUBLED = "doubled"  # kept before
    FORGED = "forged"  # secret, signature or token is missing or wrong
    STALE = "stale"  # too old, or from the future
    OVERSIZED = "oversized"  # too many bytes, too deep, too many items
    SLOW = "slow"  # its body did not come in time
    MALFORMED = "malformed"  # no JSON, or without what has to be there
    UNKNOWN = "unknown"  # an event, publisher or resource that nothing is made of
    WRONG_ORGANIZATION = "wrong_organization"
    WRONG_TENANT = "wrong_tenant"
    UNDECRYPTABLE = "undecryptable"  # kept all the same: no key for its resource data
    UNKEPT = "unkept"  # the inbox could not be written, or keys could not be fetched: told to come again


class Refused(Exception):  # noqa: N818 - how a delivery ends, not a fault of ours
    """A delivery, or one item of it, is not taken; `why` is for the log."""

    def __init__(self, outcome: Outcome, why: str) -> None:
        self.outcome = outcome
        self.why = why
        super().__init__(f"{outcome.value}: {why}")
