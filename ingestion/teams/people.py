"""Who a message names: its sender and the people mentioned in it, by account and tenant, never by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from core import principals
from core.items import PersonRef
from core.principals import Principal

Json = Mapping[str, Any]
# Kinds of identity whose id is an account of a directory. The others (guests without an account, telephones, mail)
# carry ids of their own that must not be taken for one.
_OURS: Final = frozenset({"", "aaduser", "onpremiseaaduser"})
_OF_OTHERS: Final = frozenset({"federateduser"})


class People:
    """Reads identities of one tenant's messages; `names` gives the directory's, and is asked only where Graph tells
    none (then what it raises comes through)."""

    def __init__(self, tenant: str, names: Callable[[], Mapping[Principal, str]]) -> None:
        self._tenant = tenant
        self._names = names

    def sender(self, message: Json) -> PersonRef | None:
        """Who wrote a message; a bot or device by its name alone, None where nobody did."""
        sender = message.get("from") or {}
        for kind in ("user", "application", "device"):
            identity = sender.get(kind)
            if identity:
                return self._person(identity) if kind == "user" else _named(identity)
        return None

    def mentioned(self, message: Json) -> Iterator[PersonRef]:
        """People whom a message mentions, each once: one name can be two mentions. Teams, channels and tags are
        nobody."""
        seen: set[str] = set()
        for mention in message.get("mentions") or ():
            identity = (mention.get("mentioned") or {}).get("user")
            ref = self._person({"displayName": mention.get("mentionText"), **_given(identity)}) if identity else None
            if ref is not None and ref.principal is not None and ref.principal not in seen:
                seen.add(ref.principal)
                yield ref

    def _person(self, identity: Json) -> PersonRef | None:
        kind = str(identity.get("userIdentityType") or "").lower()
        tenant = identity.get("tenantId") or (self._tenant if kind in _OURS else None)
        if not identity.get("id") or not tenant or kind not in _OURS | _OF_OTHERS:
            return _named(identity)
        principal = principals.user(str(tenant), str(identity["id"]))
        return PersonRef(str(identity.get("displayName") or self._names().get(principal, "")), principal)


def _named(identity: Json) -> PersonRef | None:
    return PersonRef(str(identity["displayName"])) if identity.get("displayName") else None


def _given(identity: Json) -> dict[str, Any]:
    return {k: v for k, v in identity.items() if v is not None}
