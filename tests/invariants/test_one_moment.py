"""What an asker belongs to and what the rules say are of one moment, even where both change while they are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import pytest

from core.errors import NotFoundError, UnresolvedIdentityError
from core.principals import PrincipalSet, VerifiedAsker
from query.principals import PrincipalResolver
from query.service import ContextService
from tests.support import border
from tests.support.border import wiki
from tests.support.laboratory import Lab, issuer_of, laboratory
from tests.support.plain_access import PlainAccess
from tests.support.postgres import PostgresServer
from tests.support.quick_embedder import QuickEmbedder

pytestmark = pytest.mark.invariant("INV-5", "INV-6")

PAGE = wiki(1, "Fuel", "Fuel cut-off is 14:00 at every berth of the harbor", "open")


def access(*, denied: str, barred: list[str]) -> PlainAccess:
    """Staff may read; who is denied, and who is barred, changes."""
    return PlainAccess(
        rules={"open": [[{"allow": ["group:staff"], "deny": [denied]}]]},
        groups={"staff": ["ann", "ben"], "barred": barred},
    )


# Ben may read in neither: once he is denied himself, once by a group that he was put into. By the memberships of the
# first and the rule of the second, he would be let in.
BY_NAME = access(denied="ben", barred=[])
BY_GROUP = access(denied="group:barred", barred=["ben"])
OPEN = access(denied="group:barred", barred=[])


@dataclass
class Meddled(PrincipalResolver):
    """Resolves askers as ever; then something happens."""

    resolver: PrincipalResolver
    then: Callable[[], None]

    def resolve(self, asker: VerifiedAsker) -> PrincipalSet:
        found = self.resolver.resolve(asker)
        self.then()
        return found


@pytest.fixture(scope="module")
def lab(postgres: PostgresServer) -> Iterator[Lab]:
    with issuer_of(border.PEOPLE) as issuer, laboratory(postgres, QuickEmbedder(), issuer) as opened:
        apply(opened, OPEN)
        opened.write([PAGE])
        yield opened


def apply(lab: Lab, rules: PlainAccess) -> None:
    lab.directory(rules.containers(lab))
    lab.permissions(rules.scopes(lab))
    lab.rewrite_index()


def meddled(lab: Lab, *states: PlainAccess) -> ContextService:
    """The service, where these become true one after the other, each right after the asker was resolved."""
    coming = list(states)

    def then() -> None:
        if coming:
            apply(lab, coming.pop(0))

    service = lab.services.service
    return replace(service, resolver=Meddled(service.resolver, then))


def asker(lab: Lab) -> VerifiedAsker:
    return lab.services.service.asker(f"Bearer {lab.token('ben')}")


def test_old_memberships_and_a_new_rule_do_not_let_in_whom_neither_state_does(lab: Lab) -> None:
    apply(lab, BY_NAME)
    with pytest.raises(NotFoundError):
        lab.services.service.item(asker(lab), PAGE.uri)
    with pytest.raises(NotFoundError):
        meddled(lab, BY_GROUP).item(asker(lab), PAGE.uri)


def test_a_change_that_is_not_the_askers_costs_them_nothing(lab: Lab) -> None:
    apply(lab, OPEN)
    elsewhere = access(denied="group:barred", barred=["ann"])
    service = meddled(lab, elsewhere, OPEN, elsewhere, OPEN, elsewhere)
    assert service.item(asker(lab), PAGE.uri).uri == PAGE.uri


def test_whose_memberships_change_again_and_again_is_told_to_come_back(lab: Lab) -> None:
    apply(lab, OPEN)
    one, other = (
        PlainAccess(rules=OPEN.rules, groups={"staff": ["ann", "ben"], "barred": [], "crew": crew})
        for crew in ([], ["ben"])
    )
    with pytest.raises(UnresolvedIdentityError):
        meddled(lab, *([other, one] * 4)).item(asker(lab), PAGE.uri)
    assert lab.call("ben", "GET", "/v1/items", params={"uri": PAGE.uri}).status_code == 200
