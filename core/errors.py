"""The one error hierarchy; each leaf says what a caller can do about it.

ContextEngineError
├── InputError                a person's or agent's input is wrong (422)
├── ConfigError               a setting, file or command line is wrong
├── IdentityError             the token does not prove who asks (401)
├── ForbiddenError            known asker, but not for this use (403)
├── NotFoundError             not there, or not for this asker: the same answer (404)
├── RateLimitedError          too many requests (429)
├── UnresolvedIdentityError   what the asker belongs to is not fully known (503)
├── StoreUnavailableError     Postgres, Qdrant or the cache does not answer (503)
├── SourceError               a crawled source failed
│   ├── SourceAuthError       the connector's credential was refused: never retried
│   ├── SourceThrottledError  the source asked to wait
│   ├── SourceGoneError       a continuation or delta token is no longer valid: resync
│   └── SourceNotFoundError   missing or unreadable: the source does not say which
├── LeaseLostError            what was held for a while is somebody else's now: stop working on it
└── InvariantError            a rule that must always hold does not: a defect of ours
"""

from __future__ import annotations

from enum import StrEnum


class IdentityReason(StrEnum):
    """Why a token was refused, as told to the client: a class, never the details."""

    MISSING = "missing_token"
    MALFORMED = "malformed_token"
    UNTRUSTED_ISSUER = "untrusted_issuer"
    BAD_SIGNATURE = "bad_signature"
    EXPIRED = "expired"
    NOT_YET_VALID = "not_yet_valid"
    WRONG_AUDIENCE = "wrong_audience"
    WRONG_TENANT = "wrong_tenant"
    WRONG_KIND = "wrong_token_kind"
    UNKNOWN_ACCOUNT = "unknown_account"
    DISABLED_ACCOUNT = "disabled_account"


class ContextEngineError(Exception):
    """Base of every error that we raise on purpose.

    `message` says what is wrong, `where` names the file, path, setting or call, `mend` says how to put it right.
    """

    def __init__(self, message: str, *, where: str | None = None, mend: str | None = None) -> None:
        self.message = message
        self.where = where
        self.mend = mend
        super().__init__(message)

    def __str__(self) -> str:
        text = f"{self.where}: {self.message}" if self.where else self.message
        return f"{text}. {self.mend}" if self.mend else text


class InputError(ContextEngineError):
    """What a person or agent sent can't be worked with."""


class ConfigError(ContextEngineError):
    """A setting, a configuration file or a command line is wrong."""


class IdentityError(ContextEngineError):
    """The bearer token does not prove who asks; `reason` is the only thing that a client is told."""

    def __init__(self, reason: IdentityReason, detail: str = "") -> None:
        self.reason = reason
        self.detail = detail
        super().__init__(f"the bearer token was refused ({reason.value})")


class ForbiddenError(ContextEngineError):
    """The asker is known, but may not use the engine in this way. `scope` is what the token would need besides."""

    def __init__(self, message: str, *, mend: str | None = None, scope: str | None = None) -> None:
        self.scope = scope
        super().__init__(message, mend=mend)


class NotFoundError(ContextEngineError):
    """There is no such thing, or not for this asker; nobody can tell which."""


class RateLimitedError(ContextEngineError):
    """Too many requests; `retry_after` in seconds."""

    def __init__(self, retry_after: float) -> None:
        self.retry_after = retry_after
        super().__init__(f"too many requests; try again in {retry_after:.0f} s")


class UnresolvedIdentityError(ContextEngineError):
    """The groups of the asker are not fully known, so no answer is safe."""


class StoreUnavailableError(ContextEngineError):
    """A store of ours does not answer; `store` names it and `retry_after` is in seconds."""

    def __init__(self, store: str, message: str, *, retry_after: float = 5.0, mend: str | None = None) -> None:
        self.store = store
        self.retry_after = retry_after
        super().__init__(message, where=store, mend=mend)


class SourceError(ContextEngineError):
    """A crawled source failed; `retryable` says whether the same call may succeed later."""

    retryable: bool = True


class SourceAuthError(SourceError):
    """The connector's own credential was refused."""

    retryable = False


class SourceThrottledError(SourceError):
    """The source asked to wait `retry_after` seconds, longer than this run would."""

    def __init__(self, message: str, *, retry_after: float, where: str | None = None) -> None:
        self.retry_after = retry_after
        super().__init__(message, where=where)


class SourceGoneError(SourceError):
    """A delta or continuation token has expired; the reader must start again."""

    retryable = False


class SourceNotFoundError(SourceError):
    """Missing or unreadable: sources do not tell these apart, so neither do we."""

    retryable = False


class LeaseLostError(ContextEngineError):
    """A lease lapsed or was taken over: whoever worked under it stops, and writes nothing more."""


class InvariantError(ContextEngineError):
    """A rule that must always hold does not."""
