"""What changes at the source arrives, and nothing else: delta, late replies, edits, deletions, restored messages,
expired links, channels that fail, and reading that is cut off anywhere."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from core.errors import SourceAuthError, SourceError
from ingestion.connector import Failure, ItemDeleted, ItemUpserted, Unlisted
from ingestion.teams import reader as reader_module
from tests.ingestion.teams.conftest import Serve
from tests.ingestion.teams.support import Data, Kept, Live, nord, said

EMPTY_TEAM: Data = {"members": ["iris"], "channels": {"General": {"messages": []}}}


def _event(name: str, after: str = "1m", **change: Any) -> Data:
    return {"id": name, "after": after, **change}


def _two_teams() -> Data:
    """Two channels that can fail on their own."""
    return {
        "Nord": {"members": ["iris"], "channels": {"General": {"messages": [said("m1", "north"), said("m2", "more")]}}},
        "Sud": {"members": ["iris"], "channels": {"General": {"messages": [said("m1", "south")]}}},
    }


def _messages_path(live: Live, team: str, channel: str = "General") -> str:
    return f".*/channels/{live.channel_id(team, channel)}/messages"


def _texts(kept: Kept) -> list[str]:
    return sorted(part.text for item in kept.items.values() for part in item.parts)


def test_a_late_reply_to_an_old_thread_comes_with_its_own_time(serve: Serve) -> None:
    """C046."""
    late = said("r9", "fuse F12 was the cause", by="teo", at="2031-03-10T09:00:00Z")
    event = _event("late", post={"channel": "message:Nord/General/old", "message": late})
    live = serve(nord(said("old", "which fuse?", at="2029-01-02T09:00:00Z"), said("m2")), events=[event])
    kept = Kept()
    kept.sync(live.connector)
    live.server.apply("late")
    kept.sync(live.connector)
    assert kept.upserted == [live.thread("Nord", "General", "old")]
    item = kept.items[live.thread("Nord", "General", "old")]
    assert [p.text for p in item.parts] == ["which fuse?", "fuse F12 was the cause"]
    assert str(item.modified_at) == "2031-03-10 09:00:00+00:00"
    assert str(item.created_at) == "2029-01-02 09:00:00+00:00"


def test_messages_older_than_a_delta_reaches_are_read_all_the_same(serve: Serve) -> None:
    live = serve(nord(said("old", "from long ago", at="2021-01-02T09:00:00Z")))
    kept = Kept()
    kept.sync(live.connector)
    assert _texts(kept) == ["from long ago"]


def test_nothing_is_read_twice_where_nothing_changed(serve: Serve) -> None:
    live = serve(nord(said("m1"), said("m2")))
    kept = Kept()
    kept.sync(live.connector)
    live.server.faults.seen.clear()
    kept.sync(live.connector)
    assert kept.upserted == []
    assert not any("/replies" in path for path in live.server.faults.seen)


def test_edited_text_replaces_what_was_there(serve: Serve) -> None:
    event = _event("edit", edit={"item": "message:Nord/General/m1", "by": "iris", "body": "Berth 8"})
    live = serve(nord(said("m1", "Berth 7")), events=[event])
    kept = Kept()
    kept.sync(live.connector)
    live.server.apply("edit")
    kept.sync(live.connector)
    assert _texts(kept) == ["Berth 8"]


def test_a_deleted_root_takes_its_thread_with_it_and_comes_back_when_restored(serve: Serve) -> None:
    root = "message:Nord/General/m1"
    events = [_event("gone", delete={"item": root}), _event("back", "2m", restore={"item": root})]
    live = serve(nord(said("m1", "secret", replies=[said("r1", "no secret")])), events=events)
    kept = Kept()
    kept.sync(live.connector)
    live.server.apply("gone")
    kept.sync(live.connector)
    assert kept.deleted == [live.thread("Nord", "General", "m1")]
    assert not kept.items
    live.server.apply("back")
    kept.sync(live.connector)
    assert _texts(kept) == ["no secret", "secret"]


def test_a_deleted_reply_is_gone_and_the_thread_stays(serve: Serve) -> None:
    event = _event("gone", delete={"item": "message:Nord/General/r1"})
    live = serve(nord(said("m1", "root", replies=[said("r1", "secret"), said("r2", "other")])), events=[event])
    kept = Kept()
    kept.sync(live.connector)
    live.server.apply("gone")
    kept.sync(live.connector)
    assert _texts(kept) == ["other", "root"]


def test_a_message_that_a_policy_blocks_is_removed_and_returns_when_it_no_longer_does(serve: Serve) -> None:
    event = _event("touch", label={"on": "message:Nord/General/m1", "label": "a"})
    later = _event("touch2", "2m", label={"on": "message:Nord/General/m1", "label": "b"})
    live = serve(nord(said("m1", "IBAN NL00")), events=[event, later], labels=["a", "b"])

    def block(path: str, data: Data) -> Data | None:
        if "/messages" not in path:
            return None
        blocked = {"dlpAction": "blockAccess", "verdictDetails": "none"}
        return {**data, "value": [{**row, "policyViolation": blocked} for row in data["value"]]}

    kept = Kept()
    kept.sync(live.connector)
    live.server.apply("touch")
    live.transport.rewrite = block
    kept.sync(live.connector)
    assert not kept.items
    live.server.apply("touch2")
    live.transport.rewrite = lambda path, data: None
    kept.sync(live.connector)
    assert _texts(kept) == ["IBAN NL00"]


def test_a_thread_that_loses_all_its_text_is_gone(serve: Serve) -> None:
    event = _event("edit", edit={"item": "message:Nord/General/m1", "by": "iris", "body": " "})
    live = serve(nord(said("m1", "Berth 7")), events=[event])
    kept = Kept()
    kept.sync(live.connector)
    live.server.apply("edit")
    kept.sync(live.connector)
    assert not kept.items
    assert kept.skipped[live.thread("Nord", "General", "m1")] == "no text"


def test_system_events_make_no_item_and_no_error(serve: Serve) -> None:
    """C083; every channel of the sandbox begins with one."""
    live = serve(nord(said("m1")))

    def without_new_kinds(path: str, data: Data) -> Data | None:
        if not path.endswith("/messages"):
            return None
        odd = {"id": "7", "messageType": "unknownFutureValue", "from": None, "body": {"content": None}}
        return {**data, "value": [*data["value"], odd]}

    live.transport.rewrite = without_new_kinds
    kept = Kept()
    kept.sync(live.connector)
    assert set(kept.skipped.values()) == {"system event"}
    assert len(kept.skipped) == 2
    assert len(kept.items) == 1
    assert not kept.failures


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
    assert _texts(kept) == ["fine"]
    assert kept.failures[odd].reason == "the message could not be understood (ValueError)"
    live.transport.rewrite = lambda path, data: None
    kept.sync(live.connector)
    assert _texts(kept) == ["fine", "odd"]
    assert not kept.failures


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
    assert _texts(kept) == sorted([f"text {n}" for n in range(6)] + [f"reply {n}" for n in range(6)])


def test_a_thousand_replies_are_paged(serve: Serve) -> None:
    replies = [said(f"r{n}", f"reply {n}") for n in range(1001)]
    live = serve(nord(said("m1", "root", replies=replies)), messages_page=50)
    kept = Kept()
    kept.sync(live.connector)
    assert len(kept.only().parts) == 1002


def test_an_expired_delta_link_costs_a_full_read_of_that_channel_and_no_other(serve: Serve) -> None:
    events = [_event("edit", edit={"item": "message:Nord/General/m1", "by": "iris", "body": "north again"})]
    live = serve(_two_teams(), events=events)
    kept = Kept()
    kept.sync(live.connector)
    live.server.apply("edit")
    live.server.faults.fail(f"{_messages_path(live, 'Nord')}/delta", status=410, times=1)
    kept.sync(live.connector)
    assert _texts(kept) == ["more", "north again", "south"]
    assert sorted(kept.upserted) == sorted(live.thread("Nord", "General", key) for key in ("m1", "m2"))
    kept.sync(live.connector)
    assert kept.upserted == []


@pytest.mark.parametrize("status", [400, 410])
def test_a_delta_that_breaks_off_with_a_lost_link_half_way_is_begun_anew(serve: Serve, status: int) -> None:
    events = [_event(f"e{n}", post={"channel": "Nord/General", "message": said(f"p{n}", f"new {n}")}) for n in range(5)]
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
    assert _texts(kept) == [*(f"new {n}" for n in range(5)), "old"]
    assert not kept.failures


def test_an_empty_channel_that_refuses_a_delta_is_listed_each_time(serve: Serve) -> None:
    post = _event("first", post={"channel": "Nord/General", "message": said("m1", "first words")})
    live = serve({"Nord": EMPTY_TEAM}, events=[post])
    live.server.faults.fail(f"{_messages_path(live, 'Nord')}/delta", status=400, times=None)
    kept = Kept()
    kept.sync(live.connector)
    assert (kept.items, kept.failures) == ({}, {})
    live.server.apply("first")
    kept.sync(live.connector)
    assert _texts(kept) == ["first words"]


def test_a_channel_that_fails_stops_no_other_loses_nothing_and_is_read_next_time(serve: Serve) -> None:
    live = serve(_two_teams())
    live.server.faults.fail(_messages_path(live, "Nord"), status=503, times=None)
    kept = Kept()
    kept.sync(live.connector)
    assert _texts(kept) == ["south"]
    (failure,) = kept.failures.values()
    assert "Nord/General" in failure.reason
    live.server.faults.clear()
    kept.sync(live.connector)
    assert _texts(kept) == ["more", "north", "south"]
    assert not kept.failures


def test_a_channel_that_fails_later_keeps_what_it_had(serve: Serve) -> None:
    event = _event("edit", edit={"item": "message:Nord/General/m1", "by": "iris", "body": "north again"})
    live = serve(_two_teams(), events=[event])
    kept = Kept()
    kept.sync(live.connector)
    live.server.apply("edit")
    live.server.faults.fail(_messages_path(live, "Nord"), status=403, times=None)
    kept.sync(live.connector)
    assert _texts(kept) == ["more", "north", "south"]
    live.server.faults.clear()
    kept.sync(live.connector)
    assert _texts(kept) == ["more", "north again", "south"]
    assert not kept.failures


def test_the_failure_of_a_channel_that_is_gone_is_forgotten(serve: Serve) -> None:
    live = serve(_two_teams(), events=[_event("gone", delete={"item": "channel:Nord/General"})])
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
    kept = Kept()
    kept.sync(live.connector)
    assert _texts(kept) == ["two"]
    assert not kept.failures[thread].hide
    live.server.faults.clear()
    kept.sync(live.connector)
    assert _texts(kept) == ["answer", "one", "two"]
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


def test_fetch_reads_threads_as_they_are_now_and_passes_over_what_is_not_of_here(serve: Serve) -> None:
    events = [
        _event("edit", edit={"item": "message:Nord/General/m1", "by": "iris", "body": "new"}),
        _event("gone", delete={"item": "message:Nord/General/m2"}),
    ]
    live = serve(nord(said("m1", "old", replies=[said("r1", "reply")]), said("m2")), events=events)
    live.connector.access()
    (reader,) = live.connector.readers()
    live.server.apply("gone")
    one, two = (live.thread("Nord", "General", key) for key in ("m1", "m2"))
    elsewhere = one.replace("ctx://teams/", "ctx://teams/9")
    other_channel = one.replace("/channels/19:", "/channels/18:")
    upserted, deleted = reader.fetch(["ctx://ado/x/work-items/1", elsewhere, other_channel, one, two])
    assert isinstance(upserted, ItemUpserted)
    assert [p.text for p in upserted.item.parts] == ["new", "reply"]
    assert deleted == ItemDeleted(two)


def test_a_list_of_channels_that_breaks_off_deletes_nothing_and_forgets_no_link(serve: Serve) -> None:
    live = serve(_two_teams())
    kept = Kept()
    kept.sync(live.connector)
    team = live.server.state.ids.team("Nord")
    live.server.faults.fail(f".*/teams/{team}/channels", status=403, times=None)
    snapshot = kept.sync(live.connector)
    assert not snapshot.complete
    assert _texts(kept) == ["more", "north", "south"]
    live.server.faults.clear()
    kept.sync(live.connector)
    assert kept.upserted == []


def test_what_a_failing_channel_has_is_told_as_unlisted(serve: Serve) -> None:
    live = serve(_two_teams())
    live.connector.access()
    (reader,) = live.connector.readers()
    live.server.faults.fail(_messages_path(live, "Nord"), status=403, times=None)
    present = set(reader.present() or ())
    north = live.thread("Nord", "General", "m1")
    assert live.thread("Sud", "General", "m1") in present
    (unlisted,) = [x for x in present if isinstance(x, Unlisted)]
    assert north.startswith(unlisted.prefix)
    assert not live.thread("Sud", "General", "m1").startswith(unlisted.prefix)


def test_a_message_that_vanished_without_a_word_is_found_missing(serve: Serve) -> None:
    live = serve(nord(said("m1", "kept"), said("m2", "purged")))
    kept = Kept()
    kept.sync(live.connector)
    purged = live.thread("Nord", "General", "m2").rpartition("/")[2]

    def without(path: str, data: Data) -> Data | None:
        if not path.endswith("/messages"):
            return None
        return {**data, "value": [row for row in data["value"] if row["id"] != purged]}

    live.transport.rewrite = without
    kept.sync(live.connector)
    assert _texts(kept) == ["kept"]


def test_a_deleted_channel_takes_its_threads_with_it(serve: Serve) -> None:
    live = serve(_two_teams(), events=[_event("gone", delete={"item": "channel:Nord/General"})])
    kept = Kept()
    kept.sync(live.connector)
    live.server.apply("gone")
    kept.sync(live.connector)
    assert _texts(kept) == ["south"]


def test_threads_carry_the_new_name_and_label_of_their_channel(serve: Serve) -> None:
    events = [
        _event("named", rename={"what": "channel:Nord/General", "to": "Berths"}),
        _event("labelled", label={"on": "channel:Nord/General", "label": "secret"}),
        _event("team", rename={"what": "team:Nord", "to": "North"}),
    ]
    live = serve(nord(said("m1")), events=events, labels=["internal", "secret"])
    kept = Kept()
    kept.sync(live.connector)
    assert (kept.only().container, kept.only().label) == ("Nord/General", None)
    live.server.apply("labelled")
    kept.sync(live.connector)
    assert (kept.only().container, kept.only().label) == ("Nord/Berths", "secret")
    live.server.apply("team")
    kept.sync(live.connector)
    assert kept.only().container == "North/Berths"
    kept.sync(live.connector)
    assert kept.upserted == []


@pytest.mark.parametrize("size", [1, 3, 20])
def test_reading_that_is_cut_off_after_any_batch_ends_with_the_same_threads(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(reader_module, "BATCH", size)
    events = [
        _event("p", post={"channel": "Nord/General", "message": said("p1", "posted")}),
        _event("d", delete={"item": "message:Nord/General/m3"}),
        _event("e", edit={"item": "message:Sud/General/m1", "by": "iris", "body": "edited"}),
        _event("r", post={"channel": "message:Nord/General/m5", "message": said("p2", "late reply")}),
    ]
    teams = _two_teams()
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
    assert sorted(set(_texts(later)) - set(_texts(whole))) == ["edited", "late reply", "posted"]
    steps = sum(1 for _ in reader.read(whole.checkpoint))
    for kept in cut:
        kept.read(reader)
        assert kept.digests() == later.digests()
    for stop in range(steps):
        kept = Kept(items=dict(whole.items), checkpoint=whole.checkpoint)
        kept.read(reader, batches=stop)
        kept.read(reader)
        assert kept.digests() == later.digests()


def test_content_is_not_read_before_permissions(serve: Serve) -> None:
    live = serve(nord(said("m1")))
    (reader,) = live.connector.readers()
    with pytest.raises(SourceError, match="after permissions"):
        next(reader.read(None))


def test_a_refused_token_ends_the_run_and_keeps_what_came(serve: Serve) -> None:
    live = serve(_two_teams())
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
