"""Work by hand beside processes that run the schedule: it waits for the leases of what it writes, and holds them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Final

from core.errors import StoreUnavailableError
from graph.db import Database
from graph.leases import Lease, LeaseStore, kept
from ingestion.connector import Connector

# Seconds: a worker lets go of a lease when its run has ended, or when it died and its time is over.
PATIENCE: Final = 120.0


def leases_of(connectors: Sequence[Connector]) -> list[str]:
    """What has to be held to write whatever these connectors read: permissions, and the items of each reader."""
    readers = [f"{c.name}/{reader.name}" for c in connectors for reader in c.readers()]
    return sorted([*(f"{c.name}/access" for c in connectors), *readers])


@contextmanager
def alone(
    database: Database, names: Sequence[str], holder: str, ttl: timedelta, *, patience: float = PATIENCE, mend: str
) -> Iterator[None]:
    """Hold these leases while the block runs. Raises StoreUnavailableError with `mend` where another process keeps one
    for longer than `patience` (seconds)."""
    store, held, end = LeaseStore(database), list[Lease](), time.monotonic() + patience
    try:
        for name in sorted(names):
            while (lease := store.acquire(name, holder, ttl)) is None:
                if time.monotonic() > end:
                    who = store.holder(name) or "another process"
                    raise StoreUnavailableError("postgres", f"{name} is still being read by {who}", mend=mend)
                time.sleep(0.5)
                for other in held:
                    other.renew()
            held.append(lease)
    except BaseException:
        for lease in held:
            lease.release()
        raise
    with kept(*held):
        yield
