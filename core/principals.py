"""Principals: one canonical spelling for whoever may be granted access, and the proof of who asks.

Both the item side (ACLs) and the asker's side go through the constructors here, so the two can't spell one
principal differently. `VerifiedAsker` and `PrincipalSet` are proof values: each is issued by one module only
(`query.identity` and `query.principals`), which `tests/invariants` checks, and no search can be called without.
"""

from __future__ import annotations

from dataclasses import InitVar, dataclass, field
from enum import StrEnum
from typing import Final, NewType, NoReturn

from core.errors import InvariantError
from core.journal import AccessJournal, digest_of_names

Principal = NewType("Principal", str)

KINDS: Final = frozenset({"user", "group", "ado", "everyone", "anyone", "channel", "team", "licence"})


class Licence(StrEnum):
    """Access levels of Azure DevOps that open something."""

    BASIC = "basic"
    STAKEHOLDER = "stakeholder"


def user(tenant: str, object_id: str) -> Principal:
    """A person, guest or service principal of the directory."""
    return parse(f"user:{tenant}/{object_id}")


def group(tenant: str, object_id: str) -> Principal:
    """A group of the directory (Entra), by object id."""
    return parse(f"group:{tenant}/{object_id}")


def ado(descriptor: str) -> Principal:
    """An Azure DevOps group by subject descriptor; base64 inside is case-sensitive and stays as it is."""
    return parse(f"ado:{descriptor}")


def everyone(tenant: str) -> Principal:
    """All enabled members of the tenant; guests and service principals not."""
    return parse(f"everyone:{tenant}")


def anyone(tenant: str) -> Principal:
    """Whoever signs in to the tenant, guests too."""
    return parse(f"anyone:{tenant}")


def channel(channel_id: str) -> Principal:
    """The roster of a Teams channel."""
    return parse(f"channel:{channel_id}")


def team(team_id: str) -> Principal:
    """The roster of a team."""
    return parse(f"team:{team_id}")


def licence(organization: str, level: Licence) -> Principal:
    """Holders of an access level in an Azure DevOps organization."""
    return parse(f"licence:{organization}/{level.value}")


def parse(text: str) -> Principal:
    """Return the canonical form of `text`; raises ValueError where it is no principal. parse(parse(x)) == parse(x)."""
    kind, separator, rest = text.strip().partition(":")
    kind = kind.lower()
    rest = rest.strip()
    if not separator or kind not in KINDS or not rest:
        raise ValueError(f"not a principal: {text!r}")
    # Descriptors carry base64, in which case matters; every other id is a GUID or case-insensitive.
    return Principal(f"{kind}:{rest}" if kind == "ado" else f"{kind}:{rest.lower()}")


def kind_of(principal: Principal) -> str:
    """The part before the colon."""
    return principal.partition(":")[0]


class UserAssertion:
    """The token that an asker came with, kept for one use: to ask a source on their behalf (`context_engine.reverify`).

    It shows itself in no log, copy, pickle or error: only `reveal` gives it out. `expires_at` is in Unix seconds.
    """

    __slots__ = ("__token", "expires_at")

    def __init__(self, token: str, *, expires_at: float) -> None:
        self.__token = token
        self.expires_at = expires_at

    def reveal(self) -> str:
        """The token itself, to be exchanged and not kept."""
        return self.__token

    def __repr__(self) -> str:
        return "UserAssertion(…)"

    def __reduce__(self) -> NoReturn:
        raise InvariantError("a person's token is never written down")


# A proof value is shown its seal when it is made and does not keep it: there is none to take from one for another, and
# `dataclasses.replace` makes no other out of one.
_IDENTITY_SEAL: Final = object()
_PRINCIPALS_SEAL: Final = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedAsker:
    """Who asks, as a validated token proved it. Issued by `query.identity` alone.

    `agent` is the application that asks on behalf of a person. An `application` asks on its own: then `spaces` is the
    policy that lists what it may be told of, and it sees what both that and its own grants open. A person has no such
    policy: `spaces` is None, and their grants decide alone. `assertion` is the token that proved it, where a source may
    be asked with it on behalf of the person.
    """

    principal: Principal
    tenant: str
    agent: str | None
    scopes: frozenset[str]
    application: bool
    spaces: frozenset[str] | None
    seal: InitVar[object]
    assertion: UserAssertion | None = field(default=None, repr=False, compare=False)

    def __post_init__(self, seal: object) -> None:
        if seal is not _IDENTITY_SEAL:
            raise InvariantError("a VerifiedAsker is issued by token validation only")
        if self.application != (self.spaces is not None):
            raise InvariantError("an application has a policy that lists its spaces, and nobody else has one")


def issue_asker(
    *,
    principal: Principal,
    tenant: str,
    agent: str | None,
    scopes: frozenset[str],
    spaces: frozenset[str] | None = None,
    assertion: UserAssertion | None = None,
) -> VerifiedAsker:
    """Make the proof that a token was validated. To be called by `query.identity` and by nobody else.

    `spaces` makes it an application on its own, narrowed to them. `assertion` is a person's token.
    """
    return VerifiedAsker(
        principal=principal,
        tenant=tenant,
        agent=agent,
        scopes=scopes,
        application=spaces is not None,
        spaces=spaces,
        seal=_IDENTITY_SEAL,
        assertion=assertion,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PrincipalSet:
    """Everything the asker counts as: themselves and the transitive closure of their memberships.

    Never empty: an asker always is themselves. Complete by construction; a partly known closure is an error, not a
    smaller set, since a missing group can hide a deny. Made for one request: `journal` records the access checks that
    are worked out with it. `epoch` is the access epoch before the closure was read; None: nobody noted it.
    """

    asker: VerifiedAsker
    principals: frozenset[Principal]
    seal: InitVar[object]
    epoch: int | None = field(default=None, compare=False)
    journal: AccessJournal = field(default_factory=AccessJournal, compare=False)

    def __post_init__(self, seal: object) -> None:
        if seal is not _PRINCIPALS_SEAL:
            raise InvariantError("a PrincipalSet is issued by principal resolution only")
        if self.asker.principal not in self.principals:
            raise InvariantError("a principal set holds its asker")

    @property
    def digest(self) -> str:
        """A stable key for caches: the same set has the same digest."""
        return digest_of_names(self.principals)

    def __repr__(self) -> str:
        return f"PrincipalSet({self.asker.principal}, {len(self.principals)} principals)"


def issue_principal_set(
    asker: VerifiedAsker, principals: frozenset[Principal], *, epoch: int | None = None
) -> PrincipalSet:
    """Make the proof that a closure was fully resolved. To be called by `query.principals` and by nobody else."""
    return PrincipalSet(asker=asker, principals=principals, seal=_PRINCIPALS_SEAL, epoch=epoch)
