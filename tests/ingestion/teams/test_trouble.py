"""When Graph fails: a lost link, a channel or message that can't be read, an answer that is cut off; reading that is
killed anywhere. Nothing is lost, nothing doubled, and what fails is told and tried again."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from core.errors import SourceAuthError, SourceError
from ingestion.connector import Failure, Unlisted
from ingestion.teams import reader as reader_module
from tests.ingestion.teams.conftest import Serve
from tests.ingestion.teams.small import event, nord, said, two_teams
from tests.ingestion.teams.support import Data, Kept, Live, without_replies

EMPTY_TEAM: Data = {"members": ["iris"], "channels": {"General": {"messages": []}}}


def _messages_path(live: Live, team: str, channel: str = "General") -> str:
    return f".*/channels/{live.channel_id(team, channel)}/messages"


def test_one_message_that_makes_no_sense_fails_alone(serve: Serve) -> None:
    live = serve(nord(said("m1", "fine"), said("m2", "odd")))
    odd = live.thread("Nord", "General", "m2")

    def break_one(path: str, data: Data) -> Data | None:
        rows = data.get("value")
        if not path.endswith("/messages") or not rows:
            return None
        broken = [{**r, "createdDateTime": "yesterday"} if odd.endswith(r["id"]) else r for r in rows]
        return {**data, "value": broken}

    live.transport.rewrite = break_one
    kept = Kept()
    kept.sync(live.connector)
    assert kept.texts() == ["fine"]
    assert kept.failures[odd].reason == "the message could not be understood (ValueError)"
    live.transport.rewrite = lambda path, data: None
    kept.sync(live.connector)
    assert kept.texts() == ["fine", "odd"]
    assert not kept.failures


def test_a_row_that_is_no_message_at_all_costs_only_itself(serve: Serve) -> None:
    live = serve(nord(said("m1", "fine")))

    def with_rubbish(path: str, data: Data) -> Data | None:
        return {**data, "value": [None, "x", *data["value"], {}]} if path.endswith("/messages") else None

    live.transport.rewrite = with_rubbish
    kept = Kept()
    kept.sync(live.connector)
    assert kept.texts() == ["fine"]
    assert "message without an id" in kept.skipped.values()


def test_teams_without_any_channel_are_a_fault_to_show(serve: Serve) -> None:
    live = serve(nord(said("m1")), teams=("Nowhere",))
    kept = Kept()
    snapshot = kept.sync(live.connector)
    assert snapshot.unknown_principals["no channel to read"] == 1
    assert any("no team that may be read has a channel" in note for note in snapshot.notes)
    assert list(kept.skipped.values()) == ["there is no channel to read"]
    nothing_wanted = live.settings.model_copy(update={"teams": ()})
    assert not type(live.connector)(nothing_wanted, client=live.client).access().notes


def test_the_same_message_on_two_pages_is_one(serve: Serve) -> None:
    messages = [said(f"m{n}", f"text {n}", replies=[said(f"r{n}", f"reply {n}")]) for n in range(6)]
    live = serve(nord(*messages), messages_page=2)
    last: list[Any] = []

    def repeat(path: str, data: Data) -> Data | None:
        if "/messages" not in path or not data.get("value"):
            return None
        rows = [*(row for row in last[-1:] if row["replyToId"] == data["value"][0]["replyToId"]), *data["value"]]
        last.extend(data["value"])
        return {**data, "value": rows}

    live.transport.rewrite = repeat
    kept = Kept()
    kept.sync(live.connector)
    assert kept.texts() == sorted([f"text {n}" for n in range(6)] + [f"reply {n}" for n in range(6)])


def test_a_thousand_replies_are_paged(serve: Serve) -> None:
    replies = [said(f"r{n}", f"reply {n}") for n in range(1001)]
    live = serve(nord(said("m1", "root", replies=replies)), messages_page=50)
    kept = Kept()
    kept.sync(live.connector)
    assert len(kept.only().parts) == 1002


def test_an_expired_delta_link_costs_a_full_read_of_that_channel_and_no_other(serve: Serve) -> None:
    events = [event("edit", edit={"item": "message:Nord/General/m1", "by": "iris", "body": "north again"})]
    live = serve(two_teams(), events=events)
    kept = Kept()
    kept.sync(live.connector)
    live.server.apply("edit")
    live.server.faults.fail(f"{_messages_path(live, 'Nord')}/delta", status=410, times=1)
    kept.sync(live.connector)
    assert kept.texts() == ["more", "north again", "south"]
    assert sorted(kept.upserted) == sorted(live.thread("Nord", "General", key) for key in ("m1", "m2"))
    kept.sync(live.connector)
    assert kept.upserted == []


@pytest.mark.parametrize("status", [400, 410])
def test_a_delta_that_breaks_off_with_a_lost_link_half_way_is_begun_anew(serve: Serve, status: int) -> None:
    events = [event(f"e{n}", post={"channel": "Nord/General", "message": said(f"p{n}", f"new {n}")}) for n in range(5)]
    live = serve(nord(said("m1", "old")), events=events, messages_page=2)
    kept = Kept()
    kept.sync(live.connector)
    live.server.apply("e4")
    pages: list[str] = []

    def second_page_fails(path: str, data: Data) -> Any:
        if not path.endswith("/delta"):
            return None
        pages.append(path)
        if len(pages) == 2:
            return httpx.Response(status, json={"error": {"code": "BadRequest", "message": "DeltaToken"}})
        return None

    live.transport.rewrite = second_page_fails
    kept.sync(live.connector)
    assert kept.texts() == [*(f"new {n}" for n in range(5)), "old"]
    assert not kept.failures


def test_an_empty_channel_that_refuses_a_delta_is_listed_each_time(serve: Serve) -> None:
    post = event("first", post={"channel": "Nord/General", "message": said("m1", "first words")})
    live = serve({"Nord": EMPTY_TEAM}, events=[post])
    live.server.faults.fail(f"{_messages_path(live, 'Nord')}/delta", status=400, times=None)
    kept = Kept()
    kept.sync(live.connector)
    assert (kept.items, kept.failures) == ({}, {})
    live.server.apply("first")
    kept.sync(live.connector)
    assert kept.texts() == ["first words"]


def test_a_channel_that_fails_stops_no_other_loses_nothing_and_is_read_next_time(serve: Serve) -> None:
    live = serve(two_teams())
    live.server.faults.fail(_messages_path(live, "Nord"), status=503, times=None)
    kept = Kept()
    kept.sync(live.connector)
    assert kept.texts() == ["south"]
    (failure,) = kept.failures.values()
    assert "Nord/General" in failure.reason
    live.server.faults.clear()
    kept.sync(live.connector)
    assert kept.texts() == ["more", "north", "south"]
    assert not kept.failures


def test_a_channel_that_fails_later_keeps_what_it_had(serve: Serve) -> None:
    happens = event("edit", edit={"item": "message:Nord/General/m1", "by": "iris", "body": "north again"})
    live = serve(two_teams(), events=[happens])
    kept = Kept()
    kept.sync(live.connector)
    live.server.apply("edit")
    live.server.faults.fail(_messages_path(live, "Nord"), status=403, times=None)
    kept.sync(live.connector)
    assert kept.texts() == ["more", "north", "south"]
    live.server.faults.clear()
    kept.sync(live.connector)
    assert kept.texts() == ["more", "north again", "south"]
    assert not kept.failures


def test_the_failure_of_a_channel_that_is_gone_is_forgotten(serve: Serve) -> None:
    live = serve(two_teams(), events=[event("gone", delete={"item": "channel:Nord/General"})])
    live.server.faults.fail(_messages_path(live, "Nord"), status=503, times=None)
    kept = Kept()
    kept.sync(live.connector)
    assert len(kept.failures) == 1
    live.server.apply("gone")
    kept.sync(live.connector)
    assert not kept.failures


def test_replies_that_cannot_be_read_fail_their_thread_alone_and_are_tried_again(serve: Serve) -> None:
    live = serve(nord(said("m1", "one", replies=[said("r1", "answer")]), said("m2", "two")))
    thread = live.thread("Nord", "General", "m1")
    live.server.faults.fail(f".*/messages/{thread.rpartition('/')[2]}/replies", status=500, times=None)
    live.transport.rewrite = without_replies
    kept = Kept()
    kept.sync(live.connector)
    assert kept.texts() == ["two"]
    assert not kept.failures[thread].hide
    live.server.faults.clear()
    kept.sync(live.connector)
    assert kept.texts() == ["answer", "one", "two"]
    assert not kept.failures


def test_a_thread_that_is_no_longer_shown_is_hidden(serve: Serve) -> None:
    live = serve(nord(said("m1")))
    kept = Kept()
    kept.sync(live.connector)
    uri = kept.only().uri
    live.server.faults.fail(f".*/messages/{uri.rpartition('/')[2]}", status=403, times=None)
    (reader,) = live.connector.readers()
    (change,) = reader.fetch([uri])
    assert isinstance(change, Failure)
    assert change.hide


def test_a_list_of_channels_that_breaks_off_deletes_nothing_and_forgets_no_link(serve: Serve) -> None:
    live = serve(two_teams())
    kept = Kept()
    kept.sync(live.connector)
    team = live.server.state.ids.team("Nord")
    live.server.faults.fail(f".*/teams/{team}/channels", status=403, times=None)
    snapshot = kept.sync(live.connector)
    assert not snapshot.complete
    assert kept.texts() == ["more", "north", "south"]
    live.server.faults.clear()
    kept.sync(live.connector)
    assert kept.upserted == []


def test_what_a_failing_channel_has_is_told_as_unlisted(serve: Serve) -> None:
    live = serve(two_teams())
    live.connector.access()
    (reader,) = live.connector.readers()
    live.server.faults.fail(_messages_path(live, "Nord"), status=403, times=None)
    present = set(reader.present() or ())
    north = live.thread("Nord", "General", "m1")
    assert live.thread("Sud", "General", "m1") in present
    (unlisted,) = [x for x in present if isinstance(x, Unlisted)]
    assert north.startswith(unlisted.prefix)
    assert not live.thread("Sud", "General", "m1").startswith(unlisted.prefix)


@pytest.mark.parametrize("size", [1, 3, 20])
def test_reading_that_is_cut_off_after_any_batch_ends_with_the_same_threads(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(reader_module, "BATCH", size)
    events = [
        event("p", post={"channel": "Nord/General", "message": said("p1", "posted")}),
        event("d", delete={"item": "message:Nord/General/m3"}),
        event("e", edit={"item": "message:Sud/General/m1", "by": "iris", "body": "edited"}),
        event("r", post={"channel": "message:Nord/General/m5", "message": said("p2", "late reply")}),
    ]
    teams = two_teams()
    teams["Nord"]["channels"]["General"]["messages"] = [said(f"m{n}", f"text {n}") for n in range(8)]
    live = serve(teams, events=events, messages_page=3)
    live.connector.access()
    (reader,) = live.connector.readers()
    total = sum(1 for _ in reader.read(None))
    whole = Kept()
    whole.read(reader)
    later = Kept(checkpoint=whole.checkpoint)
    cut: list[Kept] = []
    for stop in range(total):
        kept = Kept()
        kept.read(reader, batches=stop)
        cut.append(kept)
    live.server.apply("r")
    (reader,) = live.again_with_access().readers()
    later.items = dict(whole.items)
    later.read(reader)
    assert sorted(set(later.texts()) - set(whole.texts())) == ["edited", "late reply", "posted"]
    steps = sum(1 for _ in reader.read(whole.checkpoint))
    for kept in cut:
        kept.read(reader)
        assert kept.digests() == later.digests()
    for stop in range(steps):
        kept = Kept(items=dict(whole.items), checkpoint=whole.checkpoint)
        kept.read(reader, batches=stop)
        kept.read(reader)
        assert kept.digests() == later.digests()


def test_a_refused_token_ends_the_run_and_keeps_what_came(serve: Serve) -> None:
    live = serve(two_teams())
    kept = Kept()
    live.connector.access()
    (reader,) = live.connector.readers()
    last = max(("Nord", "Sud"), key=lambda team: live.channel_id(team, "General"))
    live.server.faults.fail(_messages_path(live, last), status=401, times=None)
    with pytest.raises(SourceAuthError):
        kept.read(reader)
    assert kept.items
    assert all(live.channel_id(last, "General") not in uri for uri in kept.items)


def test_a_source_that_does_not_answer_at_all_is_given_up_after_some_channels(serve: Serve) -> None:
    channels = {f"C{n:02}": {"messages": [said("m1")]} for n in range(12)}
    live = serve({"Nord": {"members": ["iris"], "channels": channels}})
    live.connector.access()
    (reader,) = live.connector.readers()
    live.server.faults.fail(".*/messages", status=503, times=None)
    kept = Kept()
    with pytest.raises(SourceError):
        kept.read(reader)
    assert len(kept.failures) == reader_module.PATIENCE
