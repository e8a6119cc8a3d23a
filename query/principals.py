"""Principal resolution: a verified asker to everything they count as, from the synced directory.

The token says who; the directory says what they belong to (a token can be an hour old, and its group list cut). A
closure that is not fully known is an error, never a smaller set.
"""

from __future__ import annotations

from typing import Final

from core.directory import Account
from core.errors import IdentityError, IdentityReason
from core.principals import PrincipalSet, VerifiedAsker, issue_principal_set
from graph.directory import DirectoryStore
from graph.scopes import ScopeStore
from query.principal_cache import LocalPrincipalCache, PrincipalCache

_REMEMBERED_SECONDS: Final = 30.0


class PrincipalResolver:
    """Resolves askers; remembered under the access epoch, which every change of access moves."""

    def __init__(self, directory: DirectoryStore, scopes: ScopeStore, cache: PrincipalCache | None = None) -> None:
        self._directory = directory
        self._scopes = scopes
        self._cache = cache or LocalPrincipalCache(_REMEMBERED_SECONDS)

    def resolve(self, asker: VerifiedAsker) -> PrincipalSet:
        """Return the asker's principal set.

        Raises IdentityError for an account that the directory does not have or has disabled, whatever the token says;
        UnresolvedIdentityError where memberships are not fully known.
        """
        epoch = self._scopes.epoch()
        known = self._cache.get(asker.principal, epoch)
        if known is not None:
            return issue_principal_set(asker, known, epoch=epoch)
        account: Account | None = self._directory.account(asker.principal)
        if account is None:
            raise IdentityError(IdentityReason.UNKNOWN_ACCOUNT)
        if not account.enabled:
            raise IdentityError(IdentityReason.DISABLED_ACCOUNT)
        found = self._directory.closure(asker.principal) | {asker.principal}
        # A change in between may have been read in part: what was read is not that epoch's, nor the next one's.
        if self._scopes.epoch() == epoch:
            self._cache.put(asker.principal, epoch, found)
        return issue_principal_set(asker, found, epoch=epoch)
