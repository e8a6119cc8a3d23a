"""Bounded concurrency: how many jobs may ask one source's host at once, over all processes.

Where there are several slots one of them is left to what decides access, which must not wait for crawls to end.
"""

from __future__ import annotations

from datetime import timedelta

from graph.leases import Lease, LeaseStore
from ingestion.lanes import Lane


def slot(leases: LeaseStore, connector: str, lane: Lane, *, slots: int, holder: str, ttl: timedelta) -> Lease | None:
    """Take a slot of the connector's host for work of this lane; None where there is none."""
    usable = slots if lane is Lane.ACCESS else max(1, slots - 1)
    # Work on access begins with the slot that crawls can't have.
    for number in reversed(range(usable)):
        lease = leases.acquire(f"host:{connector}#{number}", holder, ttl)
        if lease is not None:
            return lease
    return None
