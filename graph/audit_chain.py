"""The chain of the audit log, written a second time: what the database hashes, recomputed from what it holds.

One entry is hashed as SHA-256 over its fields, one after the other, each as the number of its UTF-8 bytes in decimal, a
colon and the bytes themselves; a field that is not there is `-:`. The order of the fields is that of `entry_hash`.
Times are whole microseconds since 1970 (UTC), the latency has three decimals, a list is its length and then its
members, `checks` and `detail` are the JSON text as it was stored, hashes are in lower-case hexadecimal. The words of an
entry stand in it as a digest of their own, over a random salt and them: so they can be erased, salt and all, and the
entry still verifies. The same, for the database, is in `migrations/versions/0004_audit.py`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Final

FORMAT: Final = "context-engine audit 1"
# What the first entry of all follows.
NOTHING: Final = "0" * 64

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainedEntry:
    """An entry as it is stored. `recorded_at` is the database's clock, `at` the recording process's. `plane` is `query`
    for what was asked, `audit` for retention and erasure, of which `detail` (JSON) tells. Erased words: `salt`,
    `question_digest` and `interpreted_as` are None together."""

    seq: int
    recorded_at: datetime
    at: datetime
    plane: str
    operation: str
    asker: str
    agent: str | None
    question_digest: str | None
    interpreted_as: str | None
    salt: bytes | None
    words_digest: str
    uris: tuple[str, ...]
    bundle_digest: str | None
    latency_ms: Decimal
    outcome: str
    checks: str
    detail: str
    previous_hash: str
    hash: str


def entry_hash(entry: ChainedEntry) -> str:
    """The hash that an entry must have, from everything it says but that."""
    return _digest(
        (
            FORMAT,
            entry.previous_hash,
            str(entry.seq),
            str(_microseconds(entry.recorded_at)),
            str(_microseconds(entry.at)),
            entry.plane,
            entry.operation,
            entry.asker,
            entry.agent,
            entry.words_digest,
            str(len(entry.uris)),
            *entry.uris,
            entry.bundle_digest,
            f"{entry.latency_ms:.3f}",
            entry.outcome,
            entry.checks,
            entry.detail,
        )
    )


def words_digest(salt: bytes, question_digest: str, interpreted_as: str) -> str:
    """The digest by which an entry holds its words."""
    return _digest((question_digest, interpreted_as), salt)


def _digest(fields: Iterable[str | None], begin: bytes = b"") -> str:
    whole = hashlib.sha256(begin)
    for field in fields:
        raw = None if field is None else field.encode()
        whole.update(b"-:" if raw is None else str(len(raw)).encode() + b":" + raw)
    return whole.hexdigest()


def _microseconds(at: datetime) -> int:
    return (at - _EPOCH) // _MICROSECOND
