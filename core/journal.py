"""The record of access checks: each one that is worked out for a request is written down as it is made.

A `Trim`, without which nothing can be searched, can only be made together with its entry here; what leaves the query
plane is audited with the entries of its request.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessCheck:
    """One access check: under which access epoch, over how many principals and to how many scopes it opened.

    The digests are SHA-256 over the sorted principals and the sorted ids of readable scopes, so that an auditor can
    tell whether two requests saw the same; `blocked` counts scopes that the index might match and the rule does not.
    `late_asked` counts items about which their sources were asked for this request, `late_verified` those confirmed.
    """

    epoch: int
    principals: int
    principals_digest: str
    readable: int
    readable_digest: str
    blocked: int
    late_asked: int = 0
    late_verified: int = 0


class AccessJournal:
    """The access checks of one request, in their order. Belongs to one PrincipalSet; not shared between requests."""

    def __init__(self) -> None:
        self._checks: list[AccessCheck] = []

    def note(self, check: AccessCheck) -> None:
        """Write one down. To be called by `core.access.issue_trim` and by nobody else."""
        self._checks.append(check)

    @property
    def checks(self) -> tuple[AccessCheck, ...]:
        """What was checked so far."""
        return tuple(self._checks)


def digest_of_names(names: Iterable[str]) -> str:
    """SHA-256 over names in sorted order."""
    return hashlib.sha256("\n".join(sorted(names)).encode()).hexdigest()
