"""Security namespaces and access control lists, as the organization declares them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from core.errors import SourceError
from ingestion.azure_devops.client import AdoClient, listed
from ingestion.azure_devops.faults import shaped
from ingestion.azure_devops.sdk import Sdk

NODE = "vstfs:///Classification/Node/"
PROJECT_ROOT = "$PROJECT"
GIT_ROOT = "repoV2"


class Namespace(StrEnum):
    """The namespaces that gate reading; the ids are constants of the product, the bits are asked for."""

    GIT = "2e9eb7ed-3c0a-47d4-87c1-0ffdd275fd87"
    AREA = "83e28ad4-2d72-4ceb-97b0-c7726d5502c3"
    PROJECT = "52d39943-cb85-4d7f-8fa8-c6baac873819"


_READ_ACTION = {
    Namespace.GIT: "GenericRead",
    Namespace.AREA: "WORK_ITEM_READ",
    Namespace.PROJECT: "GENERIC_READ",
}


def token_key(token: str) -> str:
    """The form in which tokens are compared: they ignore case, and may or may not end in a slash."""
    return token.strip().rstrip("/").casefold()


def area_token(chain: tuple[str, ...]) -> str:
    """The token of an area node, from the identifiers of the nodes from the root down to it."""
    return ":".join(f"{NODE}{identifier}" for identifier in chain)


def project_token(project_id: str) -> str:
    """The token of a project."""
    return f"{PROJECT_ROOT}:vstfs:///Classification/TeamProject/{project_id}"


def repo_token(project_id: str, repo_id: str | None = None) -> str:
    """The token of a repo, or of all repos of a project."""
    return "/".join(x for x in (GIT_ROOT, project_id, repo_id) if x)


@dataclass(frozen=True, slots=True)
class Acl:
    """The entries on one token that speak of reading, by identity descriptor."""

    allow: frozenset[str]
    deny: frozenset[str]
    inherit: bool

    def with_(self, other: Acl) -> Acl:
        """Both lists as one: no entry is lost, and a cut by either is a cut."""
        return Acl(self.allow | other.allow, self.deny | other.deny, self.inherit and other.inherit)


@dataclass(slots=True)
class AclTable:
    """The ACLs of one namespace, by token; a token without one has what it inherits."""

    namespace: Namespace
    bit: int
    by_token: dict[str, Acl] = field(default_factory=dict)
    # Tokens (a project's or the root's) below which the ACLs could not be read.
    unreadable: set[str] = field(default_factory=set)

    def get(self, token: str) -> Acl | None:
        """The ACL on a token, None where it has none of its own."""
        return self.by_token.get(token_key(token))

    def descriptors(self) -> Iterator[str]:
        """Every identity descriptor that an entry names."""
        for acl in self.by_token.values():
            yield from acl.allow
            yield from acl.deny


def read_bits(sdk: Sdk) -> dict[Namespace, int]:
    """The bit of reading in each namespace, by the action's name; raises SourceError where one is not declared."""
    service = sdk.security()
    listed = sdk.call("security namespaces", service.query_security_namespaces)
    bits: dict[Namespace, int] = {}
    for declared in listed or []:
        for namespace, action in _READ_ACTION.items():
            if str(declared.namespace_id).lower() == namespace.value:
                found = [int(a.bit) for a in declared.actions or [] if a.name == action]
                bits.update(zip([namespace], found, strict=False))
    missing = [n.name.lower() for n in Namespace if n not in bits]
    if missing:
        raise SourceError(
            f"the organization declares no read permission for {', '.join(missing)}", where="security namespaces"
        )
    return bits


def read_acls(client: AdoClient, table: AclTable, token: str, *, recurse: bool) -> None:
    """Add the ACLs on a token (and below it) to the table; raises SourceError where they can't be read.

    One token may come in two spellings (case, a slash at the end): what both say counts.
    """
    path = f"_apis/accesscontrollists/{table.namespace.value}"
    answer = client.get(path, {"token": token, "recurse": recurse, "includeExtendedInfo": False})
    with shaped(path):
        # An entry that can't be read may be a deny: then none of the list is taken.
        read = [(token_key(row["token"]), _acl(row, table.bit)) for row in listed(answer)]
    for key, found in read:
        known = table.by_token.get(key)
        table.by_token[key] = found if known is None else known.with_(found)


def _acl(row: Mapping[str, Any], bit: int) -> Acl:
    allow, deny = set(), set()
    entries = {key: ace for key, ace in (row["acesDictionary"] or {}).items() if ace is not None}
    for key, entry in entries.items():
        descriptor = str(entry.get("descriptor") or key)
        if int(entry.get("allow") or 0) & bit:
            allow.add(descriptor)
        if int(entry.get("deny") or 0) & bit:
            # A list names its entries twice; where the names differ, both are denied.
            deny |= {descriptor, key}
    inherit = row.get("inheritPermissions", True)
    if not isinstance(inherit, bool):
        raise TypeError(f"inheritPermissions is {inherit!r}")
    # A flag that is not there counts as its documented default: true.
    return Acl(frozenset(allow), frozenset(deny), inherit)
