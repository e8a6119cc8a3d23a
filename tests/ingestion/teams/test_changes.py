"""What changes at the source arrives, and nothing else: late replies, edits, deletions, restored messages, names."""

from __future__ import annotations

from ingestion.connector import ItemDeleted, ItemUpserted
from tests.ingestion.teams.conftest import Serve
from tests.ingestion.teams.small import event, nord, said, two_teams
from tests.ingestion.teams.support import Data, Kept, as_is


def test_a_late_reply_to_an_old_thread_comes_with_its_own_time(serve: Serve) -> None:
    """C046."""
    late = said("r9", "fuse F12 was the cause", by="teo", at="2031-03-10T09:00:00Z")
    happens = event("late", post={"channel": "message:Nord/General/old", "message": late})
    live = serve(nord(said("old", "which fuse?", at="2029-01-02T09:00:00Z"), said("m2")), events=[happens])
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
    assert kept.texts() == ["from long ago"]


def test_nothing_is_read_twice_where_nothing_changed(serve: Serve) -> None:
    live = serve(nord(said("m1"), said("m2")))
    kept = Kept()
    kept.sync(live.connector)
    live.server.faults.seen.clear()
    kept.sync(live.connector)
    assert kept.upserted == []
    assert not any("/replies" in path for path in live.server.faults.seen)


def test_edited_text_replaces_what_was_there(serve: Serve) -> None:
    happens = event("edit", edit={"item": "message:Nord/General/m1", "by": "iris", "body": "Berth 8"})
    live = serve(nord(said("m1", "Berth 7")), events=[happens])
    kept = Kept()
    kept.sync(live.connector)
    live.server.apply("edit")
    kept.sync(live.connector)
    assert kept.texts() == ["Berth 8"]


def test_a_deleted_root_takes_its_thread_with_it_and_comes_back_when_restored(serve: Serve) -> None:
    root = "message:Nord/General/m1"
    events = [event("gone", delete={"item": root}), event("back", "2m", restore={"item": root})]
    live = serve(nord(said("m1", "secret", replies=[said("r1", "no secret")])), events=events)
    kept = Kept()
    kept.sync(live.connector)
    live.server.apply("gone")
    kept.sync(live.connector)
    assert kept.deleted == [live.thread("Nord", "General", "m1")]
    assert not kept.items
    live.server.apply("back")
    kept.sync(live.connector)
    assert kept.texts() == ["no secret", "secret"]


def test_a_deleted_reply_is_gone_and_the_thread_stays(serve: Serve) -> None:
    happens = event("gone", delete={"item": "message:Nord/General/r1"})
    live = serve(nord(said("m1", "root", replies=[said("r1", "secret"), said("r2", "other")])), events=[happens])
    kept = Kept()
    kept.sync(live.connector)
    live.server.apply("gone")
    kept.sync(live.connector)
    assert kept.texts() == ["other", "root"]


def test_a_message_that_a_policy_blocks_is_removed_and_returns_when_it_no_longer_does(serve: Serve) -> None:
    happens = event("touch", label={"on": "message:Nord/General/m1", "label": "a"})
    later = event("touch2", "2m", label={"on": "message:Nord/General/m1", "label": "b"})
    live = serve(nord(said("m1", "IBAN NL00")), events=[happens, later], labels=["a", "b"])

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
    assert kept.texts() == ["IBAN NL00"]


def test_a_thread_that_loses_all_its_text_is_gone(serve: Serve) -> None:
    happens = event("edit", edit={"item": "message:Nord/General/m1", "by": "iris", "body": " "})
    live = serve(nord(said("m1", "Berth 7")), events=[happens])
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


def test_fetch_reads_threads_as_they_are_now_and_passes_over_what_is_not_of_here(serve: Serve) -> None:
    events = [
        event("edit", edit={"item": "message:Nord/General/m1", "by": "iris", "body": "new"}),
        event("gone", delete={"item": "message:Nord/General/m2"}),
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
    assert kept.texts() == ["kept"]


def test_a_deleted_channel_takes_its_threads_with_it(serve: Serve) -> None:
    live = serve(two_teams(), events=[event("gone", delete={"item": "channel:Nord/General"})])
    kept = Kept()
    kept.sync(live.connector)
    live.server.apply("gone")
    kept.sync(live.connector)
    assert kept.texts() == ["south"]


def test_threads_carry_the_new_name_and_label_of_their_channel(serve: Serve) -> None:
    events = [
        event("named", rename={"what": "channel:Nord/General", "to": "Berths"}),
        event("labelled", label={"on": "channel:Nord/General", "label": "secret"}),
        event("team", rename={"what": "team:Nord", "to": "North"}),
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


def test_a_reply_that_a_policy_blocks_later_is_gone_from_the_thread_and_back_when_it_no_longer_does(
    serve: Serve,
) -> None:
    touch = [
        event(f"touch{n}", f"{n}m", label={"on": "message:Nord/General/r1", "label": x})
        for n, x in ((1, "a"), (2, "b"))
    ]
    live = serve(nord(said("m1", "account?", replies=[said("r1", "IBAN NL00")])), events=touch, labels=["a", "b"])

    def block(path: str, data: Data) -> Data | None:
        if not path.endswith("/replies"):
            return None
        return {**data, "value": [{**row, "policyViolation": {"dlpAction": "blockAccess"}} for row in data["value"]]}

    kept = Kept()
    kept.sync(live.connector)
    assert kept.texts() == ["IBAN NL00", "account?"]
    live.transport.rewrite = block
    live.server.apply("touch1")
    kept.sync(live.connector)
    assert kept.texts() == ["account?"]
    live.transport.rewrite = as_is
    live.server.apply("touch2")
    kept.sync(live.connector)
    assert kept.texts() == ["IBAN NL00", "account?"]


def test_messages_of_an_unknown_kind_are_hidden_and_told(serve: Serve) -> None:
    events = [event("touch", label={"on": "message:Nord/General/m1", "label": "a"})]
    live = serve(nord(said("m1", "one"), said("m2", "two", replies=[said("r1", "three")])), events=events, labels=["a"])
    kept = Kept()
    kept.sync(live.connector)
    hidden = {live.thread("Nord", "General", "m1"), live.reply("Nord", "General", "r1")}
    ids = {uri.rpartition("/")[2] for uri in hidden}

    def strange(row: Data) -> Data:
        return {**row, "messageType": "hologram" if row["id"] in ids else row["messageType"]}

    def rewrite(path: str, data: Data) -> Data | None:
        if "/messages" not in path or "value" not in data:
            return None
        rows = [{**strange(row), "replies": [*map(strange, row.get("replies", ()))]} for row in data["value"]]
        return {**data, "value": rows}

    live.transport.rewrite = rewrite
    live.server.faults.expire_delta_links()
    kept.sync(live.connector)
    assert kept.texts() == ["two"]
    assert {uri for uri, why in kept.skipped.items() if why == "message of an unknown kind"} == hidden
