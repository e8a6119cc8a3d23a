"""Keeps Graph telling us: subscriptions are made, renewed at half their life, and made anew where they lapsed.

Everything is in Postgres, so whoever holds the lease goes on where another stopped, and a subscription that ended while
nobody looked is seen: what it would have told meanwhile is read then (its *gap*).
"""

from __future__ import annotations

import hashlib
import json
import logging
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from core.clock import Clock
from core.errors import SourceAuthError, SourceError, SourceNotFoundError
from core.hints import Hint, HintKind
from core.settings import Settings
from graph.inbox import Arrival, Inbox
from graph.runs import Run
from graph.subscriptions import Subscription, SubscriptionStore
from ingestion.teams.channels import ChannelLister
from ingestion.teams.client import GraphClient
from ingestion.teams.watched import changes, life, tells_messages, wanted
from ingestion.webhooks.certificates import Certificate, load_certificate
from ingestion.webhooks.client_state import client_state
from ingestion.webhooks.paths import GRAPH_PATH, LIFECYCLE_PATH

log = logging.getLogger(__name__)

CONNECTOR: Final = "teams"
READER: Final = "teams"
# Messages are told of within a minute; what a poll finds so long after the last delivery should have been told.
_GRACE: Final = timedelta(minutes=10)
_FOUND: Final = ("new", "changed", "moved", "restored", "deleted")


@dataclass
class Kept:
    """What was done: subscriptions made, renewed, removed, and those that could not be made or renewed."""

    made: int = 0
    renewed: int = 0
    removed: int = 0
    failed: int = 0


class SubscriptionKeeper:
    """Sees to the subscriptions of one tenant. Needs the lease of the connector's subscriptions.

    Without `webhooks.public_url` or `webhooks.client_state_key` nothing is made and nothing removed.
    """

    def __init__(
        self, client: GraphClient, store: SubscriptionStore, inbox: Inbox, settings: Settings, clock: Clock
    ) -> None:
        self._client, self._store, self._inbox, self._clock = client, store, inbox, clock
        self._settings = settings
        self._certificate: Certificate | None = load_certificate(settings.webhooks)

    def keep(self) -> Kept:
        """Make what is missing, renew what is past half its life, remove what is not wanted.

        One that Graph refuses (a quota, a right that is missing) is told in the store and costs itself only. Raises
        SourceError where Graph as a whole does not answer.
        """
        done = Kept()
        urls = self._urls()
        if urls is None or self._settings.graph is None:
            return done
        rows = {s.resource: s for s in self._store.all(CONNECTOR)}
        resources = self._wanted(rows)
        live = self._live()
        ours = {i for i, row in live.items() if row.get("notificationUrl") == urls[0]} | {s.id for s in rows.values()}
        kept: set[str] = set()
        for resource in resources:
            row = rows.get(resource)
            if row is not None and row.id in live and row.made_with == self._made_with(resource):
                kept.add(row.id)
                if self._clock.now() >= row.renewed_at + (row.expires_at - row.renewed_at) / 2:
                    self._count(done, "renewed", self._renew(row))
        unwanted = [i for i in sorted(live) if i in ours - kept]
        for id_ in unwanted:
            # Before others are made: of one resource there may be one only.
            self._remove(id_)
            done.removed += 1
        for resource in resources:
            row = rows.get(resource)
            if row is None or row.id not in kept:
                self._count(done, "made", self._make(resource, row))
        for resource in rows.keys() - set(resources):
            self._store.remove(CONNECTOR, resource)
        return done

    def lifecycle(self, hint: Hint) -> None:
        """Do what Graph says of a subscription (`hint.place`, its id; `hint.note`). Raises SourceError where that was
        refused, so that it is tried again."""
        row = next((s for s in self._store.all(CONNECTOR) if s.id and s.id == hint.place), None)
        if row is None or self._urls() is None:
            return  # another took its place meanwhile
        match hint.note:
            case "reauthorizationRequired":
                self._done(self._renew(row), row)
            case "subscriptionRemoved":
                self._store.ended(CONNECTOR, row.resource, self._clock.now())
                self._done(self._make(row.resource, row), row)
            case "missed":
                self._read_gap()
            case _:
                log.info("a subscription was told %r, of which nothing is made", hint.note)

    @staticmethod
    def _done(well: bool, row: Subscription) -> None:
        if not well:
            raise SourceError("Graph refuses the subscription", where=row.resource)

    # --- one subscription

    def _make(self, resource: str, before: Subscription | None) -> bool:
        """Subscribe; what an earlier subscription missed is read. False where Graph refuses."""
        now = self._clock.now()
        expires = now + life(resource)
        try:
            answer = self._client.send("POST", "/subscriptions", self._body(resource, expires))
        except SourceError as e:
            self._failed(resource, e)
            return False
        if before is not None and before.id:
            # Before it counts as made: killed in between, it is made once more, and the gap is read all the same.
            self._read_gap()
        self._store.put(
            Subscription(
                connector=CONNECTOR,
                resource=resource,
                id=str(answer.get("id") or ""),
                made_at=now,
                renewed_at=now,
                expires_at=_time(answer.get("expirationDateTime")) or expires,
                made_with=self._made_with(resource),
            )
        )
        return True

    def _renew(self, row: Subscription) -> bool:
        """Let it live longer, which renews its right too; one that is gone is made anew."""
        now = self._clock.now()
        expires = now + life(row.resource)
        try:
            body = {"expirationDateTime": _written(expires)}
            answer = self._client.send("PATCH", f"/subscriptions/{row.id}", body)
        except SourceNotFoundError:
            self._store.ended(CONNECTOR, row.resource, now)
            return self._make(row.resource, row)
        except SourceError as e:
            self._failed(row.resource, e)
            return False
        until = _time(answer.get("expirationDateTime")) or expires
        self._store.renewed(CONNECTOR, row.resource, at=now, expires_at=until)
        return True

    def _remove(self, id_: str) -> None:
        try:
            self._client.send("DELETE", f"/subscriptions/{id_}")
        except SourceNotFoundError:
            log.info("subscription %s was gone already", id_)

    def _failed(self, resource: str, error: SourceError) -> None:
        """Tell why it could not be; an error of Graph as a whole goes on up."""
        self._store.failed(CONNECTOR, resource, str(error), self._clock.now())
        log.warning("no subscription to %s: %s", resource, error)
        if error.retryable or isinstance(error, SourceAuthError):
            raise error

    def _read_gap(self) -> None:
        """Let everything be read that changed since it was last read: what was not told may be anywhere."""
        hints = (
            Hint(connector=CONNECTOR, kind=HintKind.ACCESS),
            Hint(connector=CONNECTOR, kind=HintKind.READER, reader=READER),
        )
        self._inbox.receive("subscriptions", [Arrival(key=f"gap/{uuid.uuid4().hex}", hints=hints)])

    # --- what is wanted, and what is there

    def _urls(self) -> tuple[str, str] | None:
        """Where notifications and lifecycle events are sent; None where nothing is to be made."""
        hooks = self._settings.webhooks
        if hooks.public_url is None or hooks.client_state_key is None:
            return None
        base = hooks.public_url.rstrip("/")
        return base + GRAPH_PATH, base + LIFECYCLE_PATH

    def _wanted(self, known: Iterable[str]) -> list[str]:
        """What is to be told of; where not every channel could be listed, what was `known` goes on as well."""
        graph = self._settings.graph
        assert graph is not None
        lister = ChannelLister(self._client, graph.tenant.lower(), graph.teams, incoming=graph.cloud != "china")
        listing = lister.list_all()
        found = wanted(graph.teams, listing.channels.values())
        return sorted({*found, *known}) if listing.broken else found

    def _live(self) -> dict[str, Mapping[str, Any]]:
        """The subscriptions that Graph has of this application, by id."""
        return {str(row["id"]): row for row in self._client.rows("/subscriptions") if row.get("id")}

    def _body(self, resource: str, expires: datetime) -> dict[str, Any]:
        urls, key = self._urls(), self._settings.webhooks.client_state_key
        assert urls is not None
        assert key is not None
        body: dict[str, Any] = {
            "changeType": changes(resource),
            "notificationUrl": urls[0],
            "lifecycleNotificationUrl": urls[1],
            "resource": resource,
            "expirationDateTime": _written(expires),
            "clientState": client_state(key.get_secret_value(), resource),
        }
        if self._certificate is not None and tells_messages(resource):
            body |= {
                "includeResourceData": True,
                "encryptionCertificate": self._certificate.encoded,
                "encryptionCertificateId": self._certificate.id,
            }
        return body

    def _made_with(self, resource: str) -> str:
        """A digest of everything in it but its end: where any of it is another, it is made anew."""
        body = {k: v for k, v in self._body(resource, self._clock.now()).items() if k != "expirationDateTime"}
        return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()[:32]

    @staticmethod
    def _count(done: Kept, word: str, well: bool) -> None:
        word = word if well else "failed"
        setattr(done, word, getattr(done, word) + 1)


def silent(subscriptions: Iterable[Subscription], runs: Iterable[Run]) -> list[Subscription]:
    """Subscriptions to messages that told nothing although a run of the reader found changes well after they were made
    and last heard of: they were accepted, and may never fire. `runs` are the latest ones of Teams, in any order."""
    found = [r.started_at for r in runs if r.reader == READER and any(r.counts.get(word) for word in _FOUND)]
    return [
        s
        for s in subscriptions
        if s.id and tells_messages(s.resource) and any(at - (s.last_delivery_at or s.made_at) > _GRACE for at in found)
    ]


def _written(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def _time(text: Any) -> datetime | None:
    """A time that Graph gives; None where it is none."""
    try:
        at = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return at if at.tzinfo is not None else None
