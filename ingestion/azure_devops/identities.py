"""From what Azure DevOps calls somebody (descriptors, storage keys) to canonical principals."""

from __future__ import annotations

import base64
import binascii
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from core import principals
from core.errors import SourceError
from core.items import Contribution, PersonRef, Role
from core.principals import Principal
from ingestion.azure_devops.client import AdoClient, Host
from ingestion.azure_devops.sdk import Sdk
from ingestion.azure_devops.shapes import Named

OBJECT_ID = "http://schemas.microsoft.com/identity/claims/objectidentifier"
GROUP_KIND = "Microsoft.TeamFoundation.Identity"
# People, and service principals and managed identities.
USER_KINDS = frozenset(
    {"Microsoft.IdentityModel.Claims.ClaimsIdentity", "Microsoft.VisualStudio.Services.Claims.AadServicePrincipal"}
)
# An Entra group's SID: this prefix, then the object id as four numbers.
_ENTRA_GROUP = "S-1-9-1551374245-1204400969-2402986413-2179408616-3-"
_BATCH = 50


def sid_of(subject: str) -> str | None:
    """The SID inside a group's subject descriptor (`vssgp.…`, `aadgp.…`); None where there is none."""
    kind, _, encoded = subject.partition(".")
    if kind not in ("vssgp", "aadgp"):
        return None
    try:
        sid = base64.b64decode(encoded + "=" * (-len(encoded) % 4), validate=True).decode("ascii")
    except (binascii.Error, ValueError):
        return None
    return sid if sid.startswith("S-1-9-") else None


def subject_of(sid: str) -> str:
    """The subject descriptor of a group by its SID: the inverse of `sid_of`."""
    kind = "aadgp" if sid.startswith(_ENTRA_GROUP) else "vssgp"
    return f"{kind}.{base64.b64encode(sid.encode()).decode().rstrip('=')}"


def _old_form(descriptor: str) -> str | None:
    """The SID inside a descriptor without a kind, which is the whole identity descriptor in base64."""
    if "." in descriptor:
        return None
    try:
        text = base64.b64decode(descriptor + "=" * (-len(descriptor) % 4), validate=True).decode("ascii")
    except (binascii.Error, ValueError):
        return None
    kind, _, sid = text.partition(";")
    return sid if kind == GROUP_KIND and sid.startswith("S-1-9-") else None


def entra_group_of(sid: str) -> str | None:
    """The Entra object id inside an Entra group's SID (big-endian words of the GUID's little-endian form)."""
    if not sid.startswith(_ENTRA_GROUP):
        return None
    try:
        words = [int(x) for x in sid.removeprefix(_ENTRA_GROUP).split("-")]
        return str(uuid.UUID(bytes_le=b"".join(w.to_bytes(4, "big") for w in words)))
    except (ValueError, OverflowError):
        return None


class Identities:
    """The directory of one organization, as far as it was asked. Who can't be translated is counted, and is nobody."""

    def __init__(self, client: AdoClient, sdk: Sdk) -> None:
        self._client, self._sdk = client, sdk
        self._tenant = client.settings.tenant
        self._subjects: dict[str, Principal] = {}
        self._identities: dict[str, Principal | None] = {}
        self._keys: dict[str, Principal | None] = {}
        self._names: dict[str, set[Principal]] = {}
        self.group_names: dict[str, str] = {}
        self.unknown: Counter[str] = Counter()
        self._counted: set[str] = set()
        self.problems: list[str] = []

    def load(self) -> None:
        """Read users, service principals and groups of the organization; raises SourceError where a list breaks off."""
        for kind in ("users", "serviceprincipals", "groups"):
            version = "7.1-preview.1"
            for page in self._client.pages(f"_apis/graph/{kind}", host=Host.IDENTITY, version=version):
                for row in page:
                    self._add(kind, row)

    def _add(self, kind: str, row: Mapping[str, Any]) -> None:
        descriptor, origin_id = str(row["descriptor"]), row.get("originId")
        from_entra = str(row.get("origin", "")).lower() == "aad" and bool(origin_id)
        if kind == "groups":
            self.group_names[descriptor] = str(row.get("principalName") or row.get("displayName") or descriptor)
            if not from_entra:
                self._subjects[descriptor] = principals.ado(descriptor)
                return
            inside = entra_group_of(sid_of(descriptor) or "")
            if inside is not None and inside != str(origin_id).lower():
                # Two sources that should agree don't: better nobody than the wrong group.
                self.problems.append(f"the group {descriptor} and its originId {origin_id} do not agree")
                self.unknown["aadgp mismatch"] += 1
                return
            self._subjects[descriptor] = principals.group(self._tenant, str(origin_id))
        elif from_entra:
            person = principals.user(self._tenant, str(origin_id))
            self._subjects[descriptor] = person
            for name in {row.get("principalName"), row.get("mailAddress")} - {None, ""}:
                self._names.setdefault(str(name).casefold(), set()).add(person)

    def of_subject(self, descriptor: str) -> Principal | None:
        """The principal of a subject descriptor (Graph's form); None for kinds that name no person or group."""
        if descriptor in self._subjects:
            return self._subjects[descriptor]
        sid = sid_of(descriptor) or _old_form(descriptor)
        if sid is None:
            return None
        entra = entra_group_of(sid)
        if entra is not None:
            return principals.group(self._tenant, entra)
        return principals.ado(subject_of(sid))

    def translate(self, descriptors: Iterable[str]) -> None:
        """Look up identity descriptors (the form that ACLs use) in batches; raises SourceError where a call fails."""
        wanted = sorted(set(descriptors) - self._identities.keys())
        for start in range(0, len(wanted), _BATCH):
            batch = wanted[start : start + _BATCH]
            service = self._sdk.identity()
            answer = self._sdk.call(
                "identities",
                service.read_identities,
                descriptors=",".join(batch),
            )
            by_descriptor = {str(i.descriptor).casefold(): i for i in answer or [] if i is not None and i.descriptor}
            for descriptor in batch:
                self._identities[descriptor] = self._read(descriptor, by_descriptor.get(descriptor.casefold()))

    def _read(self, descriptor: str, identity: Any) -> Principal | None:
        kind, _, rest = descriptor.partition(";")
        if kind != GROUP_KIND and kind not in USER_KINDS:
            return None
        if identity is not None:
            subject = identity.subject_descriptor
            found = self.of_subject(str(subject)) if subject else None
            if found is not None:
                return found
            object_id = _property(identity, OBJECT_ID)
            if kind in USER_KINDS and object_id:
                return principals.user(self._tenant, object_id)
        # Deleted groups and those hidden from the list are still named by old entries; the SID says which they are.
        return self.of_subject(subject_of(rest)) if kind == GROUP_KIND and rest.startswith("S-1-9-") else None

    def translated(self, descriptor: str) -> Principal | None:
        """The principal of an identity descriptor after `translate`; None if it is nobody."""
        return self._identities.get(descriptor)

    def of_identity(self, descriptor: str) -> Principal | None:
        """The principal of an identity descriptor after `translate`; None (and counted by kind) if it is nobody."""
        found = self.translated(descriptor)
        if found is None and descriptor not in self._counted:
            self._counted.add(descriptor)
            self.unknown[descriptor.partition(";")[0] or "?"] += 1
        return found

    def person(self, value: Any) -> PersonRef | None:
        """A person as an item names them. A shown name alone never becomes a principal."""
        named = Named.of(value)
        if named is None:
            return None
        principal = self.of_subject(named.descriptor) if named.descriptor else None
        if principal is None and named.descriptor is None and named.storage_key:
            principal = self._of_key(named.storage_key)
        if principal is None:
            principal = self._only(named.unique_name)
        if principal is not None and principals.kind_of(principal) != "user":
            principal = None
        return PersonRef(named.name, principal)

    def author(self, value: Any) -> PersonRef | None:
        """A commit's author: git knows an address only, which counts where exactly one account has it."""
        if not isinstance(value, Mapping) or not (value.get("name") or value.get("email")):
            return None
        address = str(value.get("email") or "")
        return PersonRef(str(value.get("name") or address), self._only(address))

    def _only(self, name: str | None) -> Principal | None:
        known = self._names.get((name or "").casefold(), set())
        return next(iter(known)) if len(known) == 1 else None

    def mentions(self, keys: Iterable[str]) -> tuple[Contribution, ...]:
        """Edges of the people with these storage keys; who is not known is no edge."""
        wanted = list(dict.fromkeys(keys))
        self.learn(wanted)
        people = (self.person({"id": key, "displayName": key}) for key in wanted)
        return tuple(Contribution(person=p, role=Role.MENTIONED, at=None) for p in people if p and p.principal)

    def learn(self, keys: Iterable[str]) -> None:
        """Look up storage keys that are not known yet, in batches, before `person` asks for them one by one."""
        wanted = sorted(set(keys) - self._keys.keys())
        for start in range(0, len(wanted), _BATCH):
            self._look_up(wanted[start : start + _BATCH])

    def _of_key(self, key: str) -> Principal | None:
        if key not in self._keys:
            self._look_up([key])
        return self._keys.get(key)

    def _look_up(self, keys: list[str]) -> None:
        try:
            service = self._sdk.identity()
            answer = self._sdk.call("identities", service.read_identities, identity_ids=",".join(keys))
        except SourceError as e:
            # An edge of a person is not worth a failed item; it is asked again in the next run.
            self.problems.append(f"identities {', '.join(keys[:3])}: {e.message}")
            return
        found = {str(i.id).casefold(): i for i in answer or [] if i is not None and i.id}
        for key in keys:
            identity = found.get(key.casefold())
            object_id = _property(identity, OBJECT_ID) if identity is not None else None
            self._keys[key] = principals.user(self._tenant, object_id) if object_id else None


def _property(identity: Any, name: str) -> str | None:
    value = (identity.properties or {}).get(name)
    if isinstance(value, Mapping):
        value = value.get("$value")
    return str(value) if value else None
