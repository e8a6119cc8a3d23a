"""Every way in: who asks, how often, what they are told, and the record of it; for HTTP and MCP alike.

No operation here takes anything but a `VerifiedAsker`, and nothing leaves before it stands in the audit log.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC
from typing import Final, TypeVar

from core.bundle import Bundle, ContextRequest
from core.clock import Clock, SystemClock
from core.errors import (
    ForbiddenError,
    IdentityError,
    IdentityReason,
    InputError,
    InvariantError,
    NotFoundError,
    RateLimitedError,
    UnresolvedIdentityError,
)
from core.principals import PrincipalSet, VerifiedAsker
from core.views import DefinitionsView, ItemView, PeopleView, StatusView
from graph.audit import Asked, AuditEntry, AuditLog, Operation
from query.engine import ContextEngine
from query.identity import TokenVerifier
from query.limits import RateLimiter
from query.principals import PrincipalResolver
from query.refused_callers import RefusedCallers

log = logging.getLogger(__name__)

ADMIN_SCOPE: Final = "context.admin"
MOST_TOPIC: Final = 400
# How often a question is answered anew because its asker's memberships changed under it.
_ATTEMPTS: Final = 3

_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Told:
    """What an answer says of itself to the audit log."""

    interpreted_as: str = ""
    uris: tuple[str, ...] = ()
    digest: str | None = None
    asked: Asked | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextService:
    """The operations of the query plane. `wall_clock` dates what is recorded."""

    engine: ContextEngine
    verifier: TokenVerifier
    resolver: PrincipalResolver
    audit: AuditLog
    limiter: RateLimiter
    status_of: Callable[[], StatusView]
    wall_clock: Clock = field(default_factory=SystemClock)
    refused: RefusedCallers = field(default_factory=RefusedCallers)

    def asker(self, *authorizations: str | None) -> VerifiedAsker:
        """Return who asks by the value of the Authorization header. Raises as `TokenVerifier.verify` does, and for two
        such headers: whatever stands before the engine may have looked at the other one. Who is refused is counted."""
        try:
            if len(authorizations) > 1:
                raise IdentityError(IdentityReason.MALFORMED)
            return self.verifier.verify(authorizations[0] if authorizations else None)
        except (IdentityError, ForbiddenError) as e:
            self.refused.note(e)
            raise

    def context(self, asker: VerifiedAsker, request: ContextRequest) -> Bundle:
        """Return evidence for a question.

        Raises InputError (422), IdentityError (401), ForbiddenError (403), RateLimitedError (429),
        UnresolvedIdentityError and StoreUnavailableError (503).
        """

        def told(bundle: Bundle) -> _Told:
            return _Told(
                interpreted_as=bundle.interpreted_as.summary,
                uris=tuple(e.uri for e in bundle.evidence),
                digest=bundle.digest,
                asked=Asked(
                    question=request.question,
                    as_of=bundle.interpreted_as.as_of,
                    focus=tuple(f.uri for f in bundle.interpreted_as.focus if f.uri is not None),
                    spaces=tuple(sorted(asker.spaces)) if asker.spaces is not None else None,
                ),
            )

        def work(principals: PrincipalSet) -> Bundle:
            return self.engine.get_context(principals, checked_question(request))

        return self._answered(asker, Operation.CONTEXT, request.question, work, told)

    def item(self, asker: VerifiedAsker, uri: str) -> ItemView:
        """Return one item in full. Raises NotFoundError where there is none or not for this asker, alike; else as
        `context` does."""

        def told(view: ItemView) -> _Told:
            return _Told(uris=(view.uri,))

        return self._answered(asker, Operation.ITEM, uri, lambda p: self.engine.expand(p, plain(uri, "uri")), told)

    def people(self, asker: VerifiedAsker, topic: str) -> PeopleView:
        """Return whom to ask about a topic. Raises as `context` does."""

        def told(view: PeopleView) -> _Told:
            uris = tuple(dict.fromkeys(r.uri for p in view.people for r in p.why))
            return _Told(interpreted_as=view.interpreted_as.summary, uris=uris, digest=view.digest)

        return self._answered(
            asker, Operation.PEOPLE, topic, lambda p: self.engine.who_knows(p, short(topic, "topic")), told
        )

    def definitions(self, asker: VerifiedAsker, term: str) -> DefinitionsView:
        """Return what a term means to the asker. Raises as `context` does."""

        def told(view: DefinitionsView) -> _Told:
            uris = tuple(dict.fromkeys(u for g in view.meanings for u in g.sources))
            return _Told(interpreted_as=view.interpreted_as.summary, uris=uris, digest=view.digest)

        return self._answered(
            asker, Operation.DEFINITIONS, term, lambda p: self.engine.define(p, short(term, "term")), told
        )

    def status(self, asker: VerifiedAsker) -> StatusView:
        """Return the ages of content and permissions. Raises ForbiddenError without the administrators' scope."""

        def work(_: PrincipalSet) -> StatusView:
            if ADMIN_SCOPE not in asker.scopes:
                raise ForbiddenError(f"the token lacks the scope {ADMIN_SCOPE}", scope=ADMIN_SCOPE)
            return self.status_of()

        return self._answered(asker, Operation.STATUS, "", work, lambda _: _Told())

    def _answered(
        self,
        asker: VerifiedAsker,
        operation: Operation,
        asked: str,
        work: Callable[[PrincipalSet], _Answer],
        told: Callable[[_Answer], _Told],
    ) -> _Answer:
        """Answer and record; what can't be recorded is not returned."""
        started = time.perf_counter()
        principals: PrincipalSet | None = None
        answer: _Answer
        try:
            self.limiter.take(asker)
            principals = self.resolver.resolve(asker)
            for _ in range(_ATTEMPTS):
                answer = work(principals)
                if _is_of_one_moment(principals):
                    break
                # Rules of one moment over memberships of another may let in whom neither would have.
                again = self.resolver.resolve(asker)
                if again.principals == principals.principals:
                    break
                principals = again
            else:
                raise UnresolvedIdentityError("memberships go on changing while they are read")
            if operation is not Operation.STATUS and not principals.journal.checks:
                raise InvariantError("an answer without a recorded access check")
            said = told(answer)
        except Exception as e:
            self._record(asker, operation, asked, principals, started, _Told(), outcome_of(e))
            raise
        self._record(asker, operation, asked, principals, started, said, "ok")
        return answer

    def _record(
        self,
        asker: VerifiedAsker,
        operation: Operation,
        asked: str,
        principals: PrincipalSet | None,
        started: float,
        told: _Told,
        outcome: str,
    ) -> None:
        self.audit.append(
            AuditEntry(
                at=self.wall_clock.now(),
                operation=operation,
                asker=asker.principal,
                agent=asker.agent,
                question_digest=hashlib.sha256(asked.encode("utf-8", "replace")).hexdigest(),
                interpreted_as=told.interpreted_as,
                uris=told.uris,
                bundle_digest=told.digest,
                latency_ms=(time.perf_counter() - started) * 1000,
                outcome=outcome,
                checks=principals.journal.checks if principals is not None else (),
                asked=told.asked,
            )
        )


def _is_of_one_moment(principals: PrincipalSet) -> bool:
    """Whether every access check was made under the epoch in which the asker's memberships were read."""
    return all(check.epoch == principals.epoch for check in principals.journal.checks)


def outcome_of(error: Exception) -> str:
    """The class of a refusal, as the audit log tells it."""
    match error:
        case IdentityError():
            return error.reason.value
        case ForbiddenError():
            return "forbidden"
        case NotFoundError():
            return "not_found"
        case RateLimitedError():
            return "rate_limited"
        case InputError():
            return "invalid_input"
        case UnresolvedIdentityError():
            return "identity_unresolved"
    return "failed"


def checked_question(request: ContextRequest) -> ContextRequest:
    """Refuse a question that says nothing or carries control characters. Raises InputError (422)."""
    plain(request.question, "question")
    if request.as_of is not None and request.as_of.tzinfo is None:
        raise InputError("as_of needs a time zone", mend="Write it like 2026-03-01T00:00:00Z")
    if request.as_of is not None:
        try:
            request.as_of.astimezone(UTC)
        except OverflowError as e:
            raise InputError("as_of lies outside the years 1 to 9999", mend="Give a time in UTC") from e
    return request


def short(text: str, what: str) -> str:
    """Refuse what is longer than a topic or term can be, or is not plain. Raises InputError (422)."""
    if len(text) > MOST_TOPIC:
        raise InputError(f"the {what} is longer than {MOST_TOPIC} characters", mend="Name it in a few words")
    return plain(text, what)


def plain(text: str, what: str) -> str:
    """Refuse text that says nothing or carries control characters. Raises InputError (422)."""
    if not text.strip():
        raise InputError(f"the {what} is empty", mend="Say it in a few words")
    if any(c for c in text if (ord(c) < 32 and c not in "\n\r\t") or 0x7F <= ord(c) < 0xA0):
        raise InputError(f"the {what} holds control characters", mend="Send plain text")
    return text
