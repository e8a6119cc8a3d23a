"""Scopes and their access rule: gates that must all pass, each an ordered list of layers, nearest first.

In the first layer of a gate that names any of the asker's principals, deny beats allow; where no layer names them,
the gate stays shut. A rule without gates lets nobody in. The rule is stored exactly as the source gave it and is
evaluated per asker, so a revocation is one row, never a rewrite of the index.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import InitVar, dataclass, field
from enum import StrEnum
from typing import Any, Final, NewType

from core import principals as p
from core.errors import InvariantError
from core.journal import AccessCheck, digest_of_names
from core.principals import Principal, PrincipalSet

ScopeId = NewType("ScopeId", str)

LICENCE_GATE: Final = "licence"

# Where the index keeps the points of items that nobody may see for now: no rule is ever written for it, so they match
# no search and weigh in no statistic, and their vectors are still there when the item comes back.
WITHHELD: Final = ScopeId("withheld")


@dataclass(frozen=True, slots=True)
class Layer:
    """One node of a chain: whom it allows and denies. `node` names it for people (for explanations)."""

    node: str
    allow: frozenset[Principal] = frozenset()
    deny: frozenset[Principal] = frozenset()


@dataclass(frozen=True, slots=True)
class Gate:
    """A condition of its own (`project`, `object`, `licence`, `roster`); its layers stand nearest first."""

    name: str
    layers: tuple[Layer, ...]


class Outcome(StrEnum):
    """How one gate came out for one asker."""

    ALLOWED = "allowed"
    DENIED = "denied"
    NOT_NAMED = "not_named"


@dataclass(frozen=True, slots=True)
class GateVerdict:
    """Which layer of a gate decided, and which of the asker's principals it named."""

    gate: str
    outcome: Outcome
    node: str | None = None
    named: tuple[Principal, ...] = ()


@dataclass(frozen=True, slots=True)
class ScopeAcl:
    """The exact rule of one scope."""

    gates: tuple[Gate, ...] = ()

    def permits(self, principals: frozenset[Principal]) -> bool:
        """Whether whoever counts as `principals` may read; no gates: no."""
        return bool(self.gates) and all(_verdict(g, principals).outcome is Outcome.ALLOWED for g in self.gates)

    def explain(self, principals: frozenset[Principal]) -> tuple[GateVerdict, ...]:
        """The verdict of every gate, in order, with the layer and entry that decided."""
        return tuple(_verdict(g, principals) for g in self.gates)

    def allowed_principals(self) -> frozenset[Principal]:
        """Everyone named by an allow of one gate: a superset of the readers, never too small.

        Whoever passes is named by an allow of every gate, so any one gate will do. Licences are held by nearly
        everybody and would select nothing, so another gate is taken where there is one; of those the shortest.
        """
        gates = [g for g in self.gates if g.name != LICENCE_GATE] or list(self.gates)
        named = [frozenset[Principal]().union(*(layer.allow for layer in gate.layers)) for gate in gates]
        return min(named, key=lambda s: (len(s), sorted(s)), default=frozenset())

    def mentioned(self) -> frozenset[Principal]:
        """Every principal that any allow or deny names."""
        return frozenset(x for g in self.gates for layer in g.layers for x in (*layer.allow, *layer.deny))

    def denied_principals(self) -> frozenset[Principal]:
        """Every principal that any deny names."""
        return frozenset(x for g in self.gates for layer in g.layers for x in layer.deny)

    def to_json(self) -> list[dict[str, Any]]:
        """Plain data for a JSONB column; the inverse of `from_json`."""
        return [
            {
                "gate": gate.name,
                "layers": [
                    {"node": layer.node, "allow": sorted(layer.allow), "deny": sorted(layer.deny)}
                    for layer in gate.layers
                ],
            }
            for gate in self.gates
        ]

    @staticmethod
    def from_json(data: Iterable[Mapping[str, Any]]) -> ScopeAcl:
        """Read what `to_json` wrote; raises ValueError on a principal that is none."""
        return ScopeAcl(
            tuple(
                Gate(
                    name=g["gate"],
                    layers=tuple(
                        Layer(
                            node=layer["node"],
                            allow=frozenset(p.parse(x) for x in layer["allow"]),
                            deny=frozenset(p.parse(x) for x in layer["deny"]),
                        )
                        for layer in g["layers"]
                    ),
                )
                for g in data
            )
        )

    @property
    def digest(self) -> str:
        """Changes exactly when the rule does."""
        return hashlib.sha256(json.dumps(self.to_json(), sort_keys=True).encode()).hexdigest()


NOBODY: Final = ScopeAcl()


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """The smallest thing that a source hangs permissions on. `acl` NOBODY where the source's rule can't be read."""

    id: ScopeId
    source: str
    kind: str
    name: str
    acl: ScopeAcl
    label: str | None = None
    attributes: Mapping[str, str] = field(default_factory=dict)


def _verdict(gate: Gate, principals: frozenset[Principal]) -> GateVerdict:
    for layer in gate.layers:
        denied = principals & layer.deny
        if denied:
            return GateVerdict(gate.name, Outcome.DENIED, layer.node, tuple(sorted(denied)))
        allowed = principals & layer.allow
        if allowed:
            return GateVerdict(gate.name, Outcome.ALLOWED, layer.node, tuple(sorted(allowed)))
    return GateVerdict(gate.name, Outcome.NOT_NAMED)


# As for `core.principals`: shown when a value is made, and not kept in it.
_TRIM_SEAL: Final = object()
_VERIFIED_SEAL: Final = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class LateBinding:
    """Which items are let through only where their source has just said so for this asker.

    `free` are the labels that ask for no such word; an item without a label asks for none either, one with a label
    that nobody configured does. `verified` are the addresses for which the source gave its word.
    """

    free: tuple[str, ...]
    verified: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """The word of the sources for one asker and one request: of `asked` items they confirmed `uris`. Issued by
    `query.late_binding` alone."""

    principals: PrincipalSet
    uris: frozenset[str]
    asked: int
    seal: InitVar[object]

    def __post_init__(self, seal: object) -> None:
        if seal is not _VERIFIED_SEAL:
            raise InvariantError("the word of a source is taken by late binding only")
        if len(self.uris) > self.asked:
            raise InvariantError("no more items are confirmed than were asked about")


def issue_verified(principals: PrincipalSet, uris: Iterable[str], *, asked: int) -> Verified:
    """Make the proof that sources were asked. To be called by `query.late_binding` and by nobody else."""
    return Verified(principals=principals, uris=frozenset(uris), asked=asked, seal=_VERIFIED_SEAL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trim:
    """What a search needs: the asker's principals, worked out against every scope's exact rule.

    `matching` are the asker's principals that some rule names (the others can match nothing, so they are not sent);
    `blocked` are scopes that the index might still match although the exact rule says no; `readable` are the scopes
    that the exact rule opens, for SQL over derived data. `late`, where labels ask for it: items of these labels stay
    out unless their source confirmed them for this request. Issued by `graph.scopes` alone.
    """

    principals: PrincipalSet
    matching: tuple[Principal, ...]
    blocked: tuple[ScopeId, ...]
    readable: frozenset[ScopeId]
    epoch: int
    seal: InitVar[object]
    late: LateBinding | None = None

    def __post_init__(self, seal: object) -> None:
        if seal is not _TRIM_SEAL:
            raise InvariantError("a Trim is issued by the scope store only")
        if self.readable & frozenset(self.blocked):
            raise InvariantError("a scope is either readable or blocked")

    @property
    def sees_nothing(self) -> bool:
        """True where no rule lets the asker in anywhere: nothing needs to be searched."""
        return not self.matching or not self.readable

    def asks_source(self, label: str | None) -> bool:
        """Whether what carries this label is let through on its source's word only."""
        return self.late is not None and label is not None and label not in self.late.free


@dataclass(frozen=True, slots=True, kw_only=True)
class Unconfirmed:
    """What a source is still to be asked about: items that the rule lets through and whose label asks for its word.

    No search and no read of content takes this, only the look-ups that name addresses to ask about.
    """

    trim: Trim

    def __post_init__(self) -> None:
        if self.trim.late is None or self.trim.late.verified:
            raise InvariantError("late binding begins with a trim under which nothing is confirmed")

    @property
    def free(self) -> tuple[str, ...]:
        """Labels that ask for no word of a source."""
        assert self.trim.late is not None
        return self.trim.late.free


def issue_trim(
    principals: PrincipalSet,
    *,
    matching: Iterable[Principal],
    blocked: Iterable[ScopeId],
    readable: Iterable[ScopeId],
    epoch: int,
    free_labels: tuple[str, ...] | None = None,
    verified: Verified | None = None,
) -> Trim:
    """Make the proof that access was worked out, and record it in the journal of the request that it is for. To be
    called by `graph.scopes` and by nobody else.

    `free_labels`, where late binding is on: those that need no word of a source; `verified` is that word. Raises
    InvariantError where the word was given for somebody else.
    """
    if verified is not None and (verified.principals.asker, verified.principals.principals) != (
        principals.asker,
        principals.principals,
    ):
        raise InvariantError("a source's word holds for the asker whom it was given for")
    late = None
    if free_labels is not None:
        late = LateBinding(free=free_labels, verified=verified.uris if verified is not None else frozenset())
    trim = Trim(
        principals=principals,
        matching=tuple(sorted(matching)),
        blocked=tuple(sorted(blocked)),
        readable=frozenset(readable),
        epoch=epoch,
        seal=_TRIM_SEAL,
        late=late,
    )
    check = AccessCheck(
        epoch=epoch,
        principals=len(principals.principals),
        principals_digest=principals.digest,
        readable=len(trim.readable),
        readable_digest=digest_of_names(trim.readable),
        blocked=len(trim.blocked),
        late_asked=verified.asked if verified is not None else 0,
        late_verified=len(verified.uris) if verified is not None else 0,
    )
    principals.journal.note(check)
    return trim
