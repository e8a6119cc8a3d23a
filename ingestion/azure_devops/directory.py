"""Azure DevOps groups with their members, and access levels, as containers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from core import principals
from core.directory import Container
from core.errors import SourceAuthError, SourceError, SourceNotFoundError
from core.principals import Licence, Principal
from ingestion.azure_devops.client import AdoClient, Host, listed, segment
from ingestion.azure_devops.faults import shaped
from ingestion.azure_devops.identities import Identities
from ingestion.azure_devops.shapes import mapping

# Access levels as the entitlement service names them. Basic + Test Plans is `advanced`; the older names still occur.
_LEVELS: Mapping[str, Licence] = {
    "express": Licence.BASIC,
    "advanced": Licence.BASIC,
    "professional": Licence.BASIC,
    "earlyadopter": Licence.BASIC,
    "stakeholder": Licence.STAKEHOLDER,
}
# Under which of these names its rows are differs from version to version.
_ROWS = ("members", "items", "value")
# Kinds of subjects that are services of Azure DevOps itself. All others may be, or may hold, somebody who asks.
_NEVER_ASK = frozenset({"svc", "s2s", "acs"})


class Directory:
    """Reads groups and licences. `problems` names what could not be read."""

    def __init__(self, client: AdoClient, identities: Identities) -> None:
        self._client, self._identities = client, identities
        self.problems: list[str] = []
        self.unknown: Counter[str] = Counter()

    def groups(self, mentioned: Iterable[Principal]) -> Iterator[Container]:
        """Azure DevOps groups that are named by an ACL, or are inside one that is, with their direct members.

        Entra groups have no members here: their people show up in Azure DevOps only once they have signed in, so
        Microsoft Graph is asked about them. Cycles end, because each group is read once.
        """
        waiting = sorted({p for p in mentioned if principals.kind_of(p) == "ado"}, reverse=True)
        seen = set(waiting)
        while waiting:
            group = waiting.pop()
            descriptor = group.partition(":")[2]
            members, partial = self._members(descriptor)
            name = self._identities.group_names.get(descriptor, descriptor)
            yield Container(principal=group, name=name, kind="azure_devops_group", members=members, partial=partial)
            inner = {m for m in members or () if principals.kind_of(m) == "ado"} - seen
            seen |= inner
            waiting.extend(sorted(inner, reverse=True))

    def _members(self, descriptor: str) -> tuple[frozenset[Principal] | None, bool]:
        """Direct members, None where they could not be read; and whether some are there whom nobody can name."""
        path = f"_apis/graph/Memberships/{segment(descriptor)}"
        found: set[Principal] = set()
        partial = False
        try:
            pages = self._client.pages(
                path, {"direction": "down", "depth": 1}, host=Host.IDENTITY, version="7.1-preview.1"
            )
            with shaped(path):
                members = [str(row["memberDescriptor"]) for page in pages for row in page]
            for member in members:
                principal = self._identities.of_subject(member)
                if principal is not None:
                    found.add(principal)
                    continue
                kind = member.partition(".")[0]
                self.unknown[f"member {kind}"] += 1
                partial |= kind not in _NEVER_ASK
        except SourceAuthError:
            raise
        except SourceNotFoundError as e:
            if descriptor not in self._identities.group_names:
                # Old entries still name deleted groups, which have no members. A group that is merely not shown to
                # us may have any.
                return frozenset(), not self._is_deleted(descriptor)
            self.problems.append(f"members of {self._identities.group_names[descriptor]}: {e.message}")
            return None, False
        except SourceError as e:
            name = self._identities.group_names.get(descriptor, descriptor)
            self.problems.append(f"members of {name}: {e.message}")
            return None, False
        return frozenset(found), partial

    def _is_deleted(self, descriptor: str) -> bool:
        """Whether the organization says so of a group that it does not list."""
        path = f"_apis/graph/MembershipStates/{segment(descriptor)}"
        try:
            state = mapping(self._client.get(path, host=Host.IDENTITY, version="7.1-preview.1"))
        except SourceAuthError:
            raise
        except SourceError:
            self.unknown["group that is not listed"] += 1
            return False
        return state.get("active") is False

    def licences(self) -> tuple[Container, ...]:
        """Holders of each access level, people and service principals; `members` None where the list broke off."""
        held: dict[Licence, set[Principal]] = {level: set() for level in Licence}
        complete = True
        for kind, key in (("userentitlements", "user"), ("serviceprincipalentitlements", "servicePrincipal")):
            try:
                with shaped(kind):
                    for row in self._entitlements(kind):
                        self._hold(row, key, held)
            except SourceAuthError:
                raise
            except SourceError as e:
                self.problems.append(f"access levels ({kind}): {e.message}")
                complete = False
        organization = self._client.organization
        return tuple(
            Container(
                principal=principals.licence(organization, level),
                name=f"{level.value} access to {organization}",
                kind="licence",
                members=frozenset(people) if complete else None,
            )
            for level, people in held.items()
        )

    def _hold(self, row: Mapping[str, Any], key: str, held: dict[Licence, set[Principal]]) -> None:
        level = _level(mapping(row.get("accessLevel")))
        if level is None:
            return
        account = mapping(row.get(key) or row.get("user") or row.get("servicePrincipal"))
        origin_id = account.get("originId")
        if str(account.get("origin", "")).lower() == "aad" and origin_id:
            held[level].add(principals.user(self._client.settings.tenant, str(origin_id)))
        elif found := self._identities.of_subject(str(account.get("descriptor") or "")):
            held[level].add(found)
        else:
            self.unknown["entitlement"] += 1

    def _entitlements(self, kind: str) -> Iterator[Mapping[str, Any]]:
        """Rows of a list whose next token stands in the body; a token that comes twice is an error."""
        token: str | None = None
        seen: set[str] = set()
        while True:
            params = {"continuationToken": token} if token else {}
            data = mapping(self._client.get(f"_apis/{kind}", params, host=Host.ENTITLEMENT))
            yield from (r for r in listed({k: data[k] for k in _ROWS if k in data}) if r)
            token = data.get("continuationToken") or None
            if not token:
                return
            if token in seen:
                raise SourceError("the list of access levels does not end", where=kind)
            seen.add(token)


def _level(access: Mapping[str, Any]) -> Licence | None:
    # Pending, expired, disabled and deleted entitlements open nothing.
    if str(access.get("status", "active")).lower() != "active":
        return None
    if str(access.get("licensingSource", "")).lower() == "msdn" and str(
        access.get("msdnLicenseType", "none")
    ).lower() not in ("none", "eligible"):
        return Licence.BASIC
    return _LEVELS.get(str(access.get("accountLicenseType", "")).lower())
