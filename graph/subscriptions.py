"""Subscriptions to changes at the sources: kept here and never in memory only, so that one that lapsed is seen."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime

from psycopg import Connection
from psycopg.rows import DictRow

from graph.db import Database, clean


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """One resource that is to be told of.

    `id` is the source's, empty where it could not be made yet; `expires_at` then is when we first wanted it.
    `made_with` is a digest of what it was made with (addresses, secret, certificate). `reason`: why the last attempt
    to make or renew it failed.
    """

    connector: str
    resource: str
    id: str
    made_at: datetime
    renewed_at: datetime
    expires_at: datetime
    last_delivery_at: datetime | None = None
    made_with: str = ""
    reason: str | None = None


class SubscriptionStore:
    """The subscriptions. Every method is one transaction and raises StoreUnavailableError."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def all(self, connector: str | None = None) -> list[Subscription]:
        """Those of one connector or all, by connector and resource."""
        with self._db.connection() as connection:
            rows = connection.execute(
                "SELECT connector, resource, id, made_at, renewed_at, expires_at, last_delivery_at, made_with, reason "
                "FROM subscriptions WHERE %(connector)s::text IS NULL OR connector = %(connector)s "
                "ORDER BY connector, resource",
                {"connector": connector},
            ).fetchall()
        return [Subscription(**r) for r in rows]

    def resources_of(self, ids: Collection[str]) -> dict[str, str]:
        """The resource of each id that is known."""
        with self._db.connection() as connection:
            rows = connection.execute(
                "SELECT id, resource FROM subscriptions WHERE id = ANY(%s)", [sorted(map(clean, ids))]
            ).fetchall()
        return {r["id"]: r["resource"] for r in rows}

    def put(self, subscription: Subscription) -> None:
        """Keep a subscription that was made; one of the same resource gives way to it."""
        one = subscription
        values = [one.connector, one.resource, one.id, one.made_at, one.renewed_at, one.expires_at, one.made_with]

        def work(connection: Connection[DictRow]) -> None:
            connection.execute(
                "INSERT INTO subscriptions (connector, resource, id, made_at, renewed_at, expires_at, made_with) "
                "VALUES (%s, %s, %s, %s, %s, %s, %s) ON CONFLICT (connector, resource) DO UPDATE SET "
                "id = excluded.id, made_at = excluded.made_at, renewed_at = excluded.renewed_at, "
                "expires_at = excluded.expires_at, made_with = excluded.made_with, last_delivery_at = NULL, "
                "reason = NULL",
                values,
            )

        self._db.retrying(work)

    def renewed(self, connector: str, resource: str, *, at: datetime, expires_at: datetime) -> None:
        """It lives longer now."""
        with self._db.connection() as connection:
            connection.execute(
                "UPDATE subscriptions SET renewed_at = %s, expires_at = %s, reason = NULL "
                "WHERE connector = %s AND resource = %s",
                [at, expires_at, connector, resource],
            )

    def failed(self, connector: str, resource: str, reason: str, at: datetime) -> None:
        """It could not be made or renewed: what is known of it stays, with the reason."""
        with self._db.connection() as connection:
            connection.execute(
                "INSERT INTO subscriptions (connector, resource, id, made_at, renewed_at, expires_at, reason) "
                "VALUES (%s, %s, '', %s, %s, %s, %s) ON CONFLICT (connector, resource) DO UPDATE SET "
                "reason = excluded.reason",
                [connector, resource, at, at, at, clean(reason)[:500]],
            )

    def ended(self, connector: str, resource: str, at: datetime) -> None:
        """The source has ended it: it counts as lapsed from then on, at the latest."""
        with self._db.connection() as connection:
            connection.execute(
                "UPDATE subscriptions SET expires_at = least(expires_at, %s) WHERE connector = %s AND resource = %s",
                [at, connector, resource],
            )

    def remove(self, connector: str, resource: str) -> None:
        """It is not wanted any more."""
        with self._db.connection() as connection:
            connection.execute(
                "DELETE FROM subscriptions WHERE connector = %s AND resource = %s", [connector, resource]
            )

    def delivered(self, at: Mapping[str, datetime]) -> None:
        """Deliveries came for these ids, the last one then. The one thing that the receiver may write here."""

        def work(connection: Connection[DictRow]) -> None:
            with connection.cursor() as cursor:
                cursor.executemany(
                    "UPDATE subscriptions SET last_delivery_at = greatest(last_delivery_at, %s) WHERE id = %s",
                    [(when, clean(id_)) for id_, when in sorted(at.items())],
                )

        if at:
            self._db.retrying(work)
