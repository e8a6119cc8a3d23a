"""What no delta tells any more: threads older than it reaches, busy ones, lost links; and pages that are too much."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import httpx
import pytest

from core.clock import FixedClock
from core.items import Source
from ingestion.teams import messages as messages_module
from ingestion.teams import reader as reader_module
from ingestion.teams.connector import TeamsConnector
from tests.ingestion.teams.conftest import MakeEngine, Serve
from tests.ingestion.teams.small import event, nord, said, two_teams
from tests.ingestion.teams.stores import START
from tests.ingestion.teams.support import Data, Kept, Live

OLD = "2029-01-02T09:00:00Z"


class Swept:
    """A channel whose delta tells nothing any more, and a reader under a clock that is moved by hand."""

    def __init__(self, live: Live, sweep: int = 86_400) -> None:
        self.live, self.clock, self.kept = live, FixedClock(START), Kept()
        settings = live.settings.model_copy(update={"sweep_interval": sweep})
        self.connector = TeamsConnector(settings, client=live.client, clock=self.clock)

    def silent(self) -> None:
        """From now on no delta round holds anything."""
        self.live.transport.rewrite = lambda path, data: {**data, "value": []} if path.endswith("/delta") else None

    def read(self, after: timedelta = timedelta(0)) -> list[str]:
        """Read some time later; what was read again."""
        self.clock.advance(after)
        self.kept.upserted.clear()
        self.kept.read(self.connector.readers()[0])
        return sorted(self.kept.upserted)


def _changed(serve: Serve) -> Live:
    message = "message:Nord/General/{}"
    events = [
        event("edit", edit={"item": message.format("r1"), "by": "teo", "body": "fuse F12"}),
        event("blank", delete={"item": message.format("r2")}),
        event("reply", post={"channel": message.format("old"), "message": said("late", "and F13")}),
        event("gone", delete={"item": message.format("other")}),
    ]
    replies = [said("r1", "fuse F11", by="teo", at=OLD), said("r2", "personal data", at=OLD)]
    return serve(nord(said("old", "which fuse?", at=OLD, replies=replies), said("other", "x", at=OLD)), events=events)


def test_replies_edits_and_deletions_in_old_threads_are_found_by_a_sweep(serve: Serve) -> None:
    live = _changed(serve)
    swept = Swept(live)
    assert len(swept.read()) == 2
    swept.silent()
    live.server.apply("gone")
    assert swept.read(timedelta(hours=23)) == []
    assert "personal data" in swept.kept.texts()
    assert swept.read(timedelta(hours=1)) == [live.thread("Nord", "General", "old")]
    assert swept.kept.texts() == ["and F13", "fuse F12", "which fuse?"]
    assert swept.read(timedelta(hours=23)) == []
    assert swept.read(timedelta(hours=1)) == [live.thread("Nord", "General", "old")]


def test_a_sweep_can_be_switched_off(serve: Serve) -> None:
    live = _changed(serve)
    swept = Swept(live, sweep=0)
    swept.read()
    swept.silent()
    live.server.apply("gone")
    assert swept.read(timedelta(days=400)) == []


def test_a_sweep_of_many_channels_is_spread_and_what_is_new_goes_before_it(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader_module, "SWEPT_AT_ONCE", 2)
    channels = {f"C{n}": {"messages": [said("m1", f"note {n}", at=OLD)]} for n in range(5)}
    news = [event(f"e{n}", edit={"item": f"message:Nord/C{n}/m1", "by": "iris", "body": f"edit {n}"}) for n in range(5)]
    live = serve({"Nord": {"members": ["iris"], "channels": channels}}, events=news)
    swept = Swept(live)
    assert len(swept.read()) == 5
    live.server.apply("e4")
    runs = [swept.read(timedelta(days=1)), swept.read(), swept.read(), swept.read()]
    assert [len(run) for run in runs] == [5 + 2, 2, 1, 0]
    assert len({uri for run in runs[1:] for uri in run}) == 3


def test_a_sweep_of_unchanged_threads_writes_and_embeds_nothing_and_costs_a_request_a_page(
    serve: Serve, engine: MakeEngine
) -> None:
    many = [said(f"m{n}", f"note {n}", replies=[said(f"r{n}", f"answer {n}")]) for n in range(12)]
    live, stores = serve(nord(*many), sweep_interval=3600), engine()
    connector = TeamsConnector(live.settings, client=live.client, clock=stores.clock)
    stores.sync(connector)
    kept = stores.items.visible(stores.trim(live.principal("iris")), sorted(stores.items.uris(Source.TEAMS)))
    stores.clock.advance(timedelta(hours=1))
    live.server.faults.seen.clear()
    counts = stores.sync(connector)["teams"].counts
    assert counts["unchanged"] == 12
    assert not {"new", "changed", "embedded", "moved", "restored", "deleted"} & counts.keys()
    assert stores.items.visible(stores.trim(live.principal("iris")), sorted(kept)) == kept
    assert not any("/replies" in path for path in live.server.faults.seen)


@pytest.mark.parametrize("told", [True, False])
def test_replies_that_do_not_all_come_with_their_root_are_read_to_the_end(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, told: bool
) -> None:
    """The service cuts a long list, and does not always say that it did."""
    replies = [said(f"r{n:02}", f"reply {n:02}") for n in range(33)]
    live = serve(nord(said("busy", "root", replies=replies), said("quiet", "calm", replies=[said("q1", "yes")])))
    if not told:
        monkeypatch.setattr(messages_module, "_EXPANDED", 20)
        live.transport.rewrite = lambda path, data: (
            {**data, "value": [{k: v for k, v in row.items() if "nextLink" not in k} for row in data["value"]]}
            if path.endswith("/messages")
            else None
        )
    kept = Kept()
    kept.read(live.connector.readers()[0])
    assert len(kept.items[live.thread("Nord", "General", "busy")].parts) == 34
    asked = Counter(path.rpartition("/")[2] for path in live.server.faults.seen)
    assert asked["replies"] == 1


@pytest.mark.parametrize(
    ("fails_at", "pages"), [((50,), ["50", "50", "10"]), ((50, 10), ["50", "50", "10", "10", "50"])]
)
def test_a_page_that_is_too_much_is_asked_for_in_smaller_ones_and_then_without_replies(
    serve: Serve, fails_at: tuple[int, ...], pages: list[str]
) -> None:
    live = serve(nord(*(said(f"m{n}", f"note {n}", replies=[said(f"r{n}", f"yes {n}")]) for n in range(3))))
    asked: list[httpx.URL] = []
    real = live.transport.handle_request

    def too_much(request: httpx.Request) -> httpx.Response:
        query = request.url.params
        if request.url.path.endswith("/messages"):
            asked.append(request.url)
            if "$expand" in query and int(query["$top"]) in fails_at:
                return httpx.Response(502, request=request)
        return real(request)

    live.transport.handle_request = too_much  # type: ignore[method-assign]
    kept = Kept()
    kept.read(live.connector.readers()[0])
    assert kept.texts() == sorted([f"note {n}" for n in range(3)] + [f"yes {n}" for n in range(3)])
    assert not kept.failures
    assert [url.params["$top"] for url in asked] == pages
    assert ("$expand" in asked[-1].params) == (len(fails_at) == 1)


@pytest.mark.parametrize("status", [400, 410])
def test_a_lost_link_leads_to_a_comparison_that_finds_what_vanished_meanwhile(
    serve: Serve, engine: MakeEngine, status: int
) -> None:
    live, stores = serve(two_teams()), engine(reconcile_every=timedelta(days=1))
    stores.sync(live.connector)
    purged = live.thread("Nord", "General", "m2")

    def without(path: str, data: Data) -> Data | None:
        if "/messages" not in path or "value" not in data:
            return None
        return {**data, "value": [row for row in data["value"] if not purged.endswith(row["id"])]}

    live.transport.rewrite = without
    assert "missed" not in stores.sync(live.connector)["teams"].counts
    assert purged in stores.texts(live.principal("iris"))
    live.server.faults.fail(f".*{live.channel_id('Nord', 'General')}/messages/delta", status=status, times=1)
    assert stores.sync(live.connector)["teams"].counts["missed"] == 1
    assert sorted(stores.texts(live.principal("iris")).values()) == ["north", "south"]
    assert stores.sync(live.connector)["teams"].counts["deleted"] == 1
