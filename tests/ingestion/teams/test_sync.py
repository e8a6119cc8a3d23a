"""Teams all the way into the stores: what is obeyed, what is written, and what survives being killed anywhere."""

from __future__ import annotations

from datetime import timedelta

import pytest

from core.items import Source
from fixtures.sandbox.refs import Ref
from ingestion.teams import reader as reader_module
from tests.ingestion.teams.conftest import MakeEngine, Serve
from tests.ingestion.teams.small import event, nord, said
from tests.ingestion.teams.stores import LIMIT, Engine, Killed
from tests.ingestion.teams.support import Data, Live, without_replies


def _teams() -> Data:
    return {
        "Nord": {
            "members": ["iris", "teo"],
            "channels": {
                "General": {"messages": [said("m1", "Berth 7 closes Friday", replies=[said("r1", "until when?")])]},
                "Customs": {"kind": "private", "members": ["teo"], "messages": [said("m1", "Seal 77301 is broken")]},
            },
        },
        "Sud": {"members": ["mina"], "channels": {"General": {"messages": [said("m1", "Crane 4 is out")]}}},
    }


def _failing(live: Live, team: str, what: str, channel: str = "General") -> str:
    return f".*/channels/{live.channel_id(team, channel)}/{what}"


def test_each_person_finds_what_the_channels_lists_let_them(serve: Serve, engine: MakeEngine) -> None:
    live, stores = serve(_teams()), engine()
    reports = stores.sync(live.connector)
    assert {r.state for r in reports.values()} == {"complete"}
    general, customs = (live.thread("Nord", c, "m1") for c in ("General", "Customs"))
    assert set(stores.texts(live.principal("iris"))) == {general}
    assert set(stores.texts(live.principal("teo"))) == {general, customs}
    assert set(stores.texts(live.principal("mina"))) == {live.thread("Sud", "General", "m1")}
    assert stores.search(live.principal("iris"), "berth") == [general]
    assert stores.search(live.principal("mina"), "berth") == []
    assert stores.search(live.principal("iris"), "seal") == []


def test_a_team_that_is_not_there_is_told_of_a_run_that_is_complete(serve: Serve, engine: MakeEngine) -> None:
    live, stores = serve(_teams(), teams=("Nowhere",)), engine()
    report = stores.synchronizer.sync_access(live.connector)
    assert report.state == "complete"
    assert report.reason == "there is no team Nowhere; no team that may be read has a channel"
    assert report.counts["unknown_principal_kind:no channel to read"] == 1
    assert stores.sync(live.connector)["teams"].counts["skipped:there is no channel to read"] == 1


def test_accounts_and_groups_alone_take_nothing_from_rosters_and_are_obeyed_at_once(
    serve: Serve, engine: MakeEngine
) -> None:
    live, stores = serve(_teams(), events=[event("gone", delete={"item": "person:teo"})]), engine()
    stores.sync(live.connector)
    before = stores.texts(live.principal("iris"))
    live.server.apply("gone")
    report = stores.synchronizer.sync_memberships(live.connector)
    assert (report.state, report.reason) == ("complete", None)
    assert stores.texts(live.principal("iris")) == before
    assert stores.directory.account(live.principal("teo")) is None


def test_somebody_who_leaves_a_channel_finds_nothing_of_it_after_the_next_pass_over_permissions(
    serve: Serve, engine: MakeEngine
) -> None:
    happens = event("off", remove_member={"channel": "Nord/Customs", "who": "teo"})
    live, stores = serve(_teams(), events=[happens]), engine()
    stores.sync(live.connector)
    live.server.apply("off")
    stores.synchronizer.sync_access(live.connector)
    assert set(stores.texts(live.principal("teo"))) == {live.thread("Nord", "General", "m1")}
    assert stores.search(live.principal("teo"), "seal") == []


def test_unchanged_threads_that_a_delta_brings_again_are_neither_written_nor_embedded(
    serve: Serve, engine: MakeEngine
) -> None:
    """C047."""
    live, stores = serve(_teams()), engine()
    stores.sync(live.connector)
    before = {uri: stores.items.digest_of(uri) for uri in stores.items.uris(Source.TEAMS)}
    times = stores.items.visible(stores.trim(live.principal("teo")), list(before))
    live.server.faults.expire_delta_links()
    counts = stores.sync(live.connector)["teams"].counts
    assert counts["unchanged"] == 3
    assert (
        counts.get("new", 0) == counts.get("changed", 0) == counts.get("embedded", 0) == counts.get("deleted", 0) == 0
    )
    assert stores.items.visible(stores.trim(live.principal("teo")), list(before)) == times


def test_a_reaction_is_kept_and_embeds_nothing_and_opens_nothing(serve: Serve, engine: MakeEngine) -> None:
    live, stores = serve(_teams()), engine()
    stores.sync(live.connector)
    uri, mina = live.thread("Nord", "General", "m1"), live.principal("mina")
    state, readers = live.server.state, set(stores.texts(mina))
    with state.lock:
        state.lookup.messages["Nord", "General"]["m1"][0].reactions["like"] = ["mina", "teo"]
        state.touch_message(Ref("message", ("Nord", "General", "m1")))
    before = stores.items.visible(stores.trim(live.principal("iris")), [uri])[uri]
    counts = stores.sync(live.connector)["teams"].counts
    assert counts["changed"] == 1
    assert "embedded" not in counts
    after = stores.items.visible(stores.trim(live.principal("iris")), [uri])[uri]
    assert (after.attributes["reactions"], after.modified_at) == ("2", before.modified_at)
    assert set(stores.texts(mina)) == readers


def test_a_late_reply_is_found_after_the_next_run(serve: Serve, engine: MakeEngine) -> None:
    """C046."""
    late = said("r9", "fuse F12 was the cause", by="teo", at="2031-03-10T09:00:00Z")
    happens = event("late", post={"channel": "message:Nord/General/m1", "message": late})
    live, stores = serve(nord(said("m1", "why?", at="2029-01-01T09:00:00Z")), events=[happens]), engine()
    stores.sync(live.connector)
    assert stores.search(live.principal("iris"), "fuse F12") == []
    live.server.apply("late")
    assert stores.sync(live.connector)["teams"].counts["changed"] == 1
    uri = live.thread("Nord", "General", "m1")
    assert stores.search(live.principal("iris"), "fuse F12") == [uri]
    row = stores.items.visible(stores.trim(live.principal("iris")), [uri])[uri]
    assert str(row.modified_at) == "2031-03-10 09:00:00+00:00"


def test_edited_and_deleted_words_are_gone_from_record_and_index_and_a_restored_thread_is_back(
    serve: Serve, engine: MakeEngine
) -> None:
    root = "message:Nord/General/m1"
    events = [
        event("edit", edit={"item": root, "by": "iris", "body": "Berth 8 closes"}),
        event("reply-gone", delete={"item": "message:Nord/General/r1"}),
        event("gone", delete={"item": root}),
        event("back", "2m", restore={"item": root}),
    ]
    live, stores = serve(_teams(), events=events), engine()
    iris, uri = live.principal("iris"), live.thread("Nord", "General", "m1")
    stores.sync(live.connector)
    live.server.apply("edit")
    stores.sync(live.connector)
    assert stores.search(iris, "Friday") == []
    assert stores.search(iris, "8") == [uri]
    live.server.apply("reply-gone")
    stores.sync(live.connector)
    assert stores.search(iris, "until when") == []
    assert "until" not in stores.texts(iris)[uri]
    live.server.apply("gone")
    stores.sync(live.connector)
    assert (stores.texts(iris), stores.points(iris)) == ({}, 0)
    live.server.apply("back")
    stores.sync(live.connector)
    assert stores.search(iris, "berth") == [uri]


def test_a_reply_that_was_removed_for_good_is_gone_though_the_thread_looks_older_then(
    serve: Serve, engine: MakeEngine
) -> None:
    """A purged reply is no longer listed, so that the thread's newest time goes back."""
    happens = event("touch", label={"on": "message:Nord/General/m1", "label": "a"})
    thread = said("m1", "root", replies=[said("r1", "personal data", at="2031-02-01T09:00:00Z")])
    live, stores = serve(nord(thread), events=[happens], labels=["a"]), engine(labels=("a",))
    iris = live.principal("iris")
    stores.sync(live.connector)
    live.server.apply("touch")

    def purged(path: str, data: Data) -> Data | None:
        if path.endswith("/replies"):
            return {**data, "value": []}
        if "/messages" in path:
            old = {"lastModifiedDateTime": "2031-01-10T09:00:00Z", "etag": "1"}
            return {**data, "value": [{**row, **old} for row in data["value"]]}
        return None

    live.transport.rewrite = purged
    stores.sync(live.connector)
    assert stores.search(iris, "personal") == []
    assert list(stores.texts(iris).values()) != []
    assert "personal" not in repr(stores.texts(iris))


def test_a_label_is_obeyed_for_the_whole_thread_by_its_most_sensitive_message(serve: Serve, engine: MakeEngine) -> None:
    labels = ("open", "internal", "secret")
    thread = said("m1", "seal", label="secret", replies=[said("r1", "fine", label="open")])
    happens = event("labelled", label={"on": "channel:Nord/General", "label": "secret"})
    live = serve(nord(thread, said("m2", "berth")), labels=list(labels), events=[happens])
    stores = engine(labels=labels, never_index="secret")
    stores.sync(live.connector)
    assert set(stores.texts(live.principal("iris"))) == {live.thread("Nord", "General", "m2")}
    live.server.apply("labelled")
    stores.sync(live.connector)
    assert stores.texts(live.principal("iris")) == {}
    assert stores.points(live.principal("iris")) == 0


def test_a_roster_that_cannot_be_read_keeps_its_last_readers_until_the_limit_and_then_nobody(
    serve: Serve, engine: MakeEngine
) -> None:
    live, stores = serve(_teams(), events=[event("shut", delete={"item": "channel:Sud/General"})]), engine()
    stores.sync(live.connector)
    live.server.faults.fail(_failing(live, "Nord", "allMembers"), status=403, times=None)
    report = stores.sync(live.connector)["access"]
    assert report.state == "partial"
    assert report.counts["unread_containers"] == 1
    assert "Nord/General" in str(report.reason)
    assert set(stores.texts(live.principal("iris"))) == {live.thread("Nord", "General", "m1")}
    assert set(stores.texts(live.principal("mina"))) == {live.thread("Sud", "General", "m1")}
    stores.clock.move_to(stores.clock.now() + LIMIT + timedelta(seconds=1))
    stores.sync(live.connector)
    assert stores.texts(live.principal("iris")) == {}
    # What does not hang on it stays open, and what is gone meanwhile is shut.
    assert set(stores.texts(live.principal("teo"))) == {live.thread("Nord", "Customs", "m1")}
    assert set(stores.texts(live.principal("mina"))) == {live.thread("Sud", "General", "m1")}
    live.server.apply("shut")
    assert stores.sync(live.connector)["access"].state == "partial"
    assert stores.texts(live.principal("mina")) == {}
    live.server.faults.clear()
    assert stores.sync(live.connector)["access"].state == "complete"
    assert set(stores.texts(live.principal("iris"))) == {live.thread("Nord", "General", "m1")}


def test_a_roster_that_was_never_read_lets_nobody_in(serve: Serve, engine: MakeEngine) -> None:
    live, stores = serve(_teams()), engine()
    live.server.faults.fail(_failing(live, "Nord", "allMembers"), status=403, times=1)
    stores.synchronizer.sync_access(live.connector)
    with pytest.raises(Exception, match="not fully known"):
        stores.texts(live.principal("iris"))


def test_a_pass_that_broke_off_deletes_no_membership_and_a_whole_one_does(serve: Serve, engine: MakeEngine) -> None:
    """C019."""
    groups = {"tug": {"name": "Tug", "members": ["iris"]}, "nord": {"name": "Nord", "members": ["teo"]}}
    live, stores = serve(_teams(), groups=groups, events=[event("gone", delete={"item": "group:tug"})]), engine()
    stores.sync(live.connector)
    before = {p: stores.directory.closure(live.principal(p)) for p in ("iris", "teo")}
    live.server.faults.fail(".*/groups/delta", status=403, times=None)
    tug = live.server.state.ids.group("tug")
    live.server.faults.fail(f".*/groups/{tug}/members", status=403, times=None)
    assert stores.sync(live.connector)["access"].state == "partial"
    assert {p: stores.directory.closure(live.principal(p)) for p in ("iris", "teo")} == before
    assert [p for p in stores.directory.unresolved_since() if p.endswith(tug)]
    live.server.faults.clear()
    live.server.apply("gone")
    assert stores.sync(live.connector)["access"].state == "complete"
    assert not [p for p in stores.directory.closure(live.principal("iris")) if p.endswith(tug)]
    assert stores.directory.closure(live.principal("teo")) == before["teo"]


def test_a_failing_channel_makes_the_run_partial_keeps_its_threads_and_lets_others_be_tidied(
    serve: Serve, engine: MakeEngine
) -> None:
    events = [
        event("edit", edit={"item": "message:Nord/General/m1", "by": "iris", "body": "Berth 9 is new"}),
        event("gone", delete={"item": "message:Sud/General/m1"}),
    ]
    live, stores = serve(_teams(), events=events), engine()
    stores.sync(live.connector)
    live.server.apply("gone")
    live.server.faults.fail(_failing(live, "Nord", "messages"), status=503, times=None)
    report = stores.sync(live.connector)["teams"]
    assert report.state == "partial"
    assert "will be retried" in str(report.reason)
    assert "could not be listed" in str(report.reason)
    assert "Berth 7" in stores.texts(live.principal("iris"))[live.thread("Nord", "General", "m1")]
    assert stores.texts(live.principal("mina")) == {}
    live.server.faults.clear()
    report = stores.sync(live.connector)["teams"]
    assert (report.state, stores.runs.failures()) == ("complete", [])
    assert "Berth 9" in stores.texts(live.principal("iris"))[live.thread("Nord", "General", "m1")]


def test_a_thread_that_fails_is_told_and_tried_again_until_it_can_be_read(serve: Serve, engine: MakeEngine) -> None:
    live, stores = serve(_teams()), engine()
    uri = live.thread("Nord", "General", "m1")
    live.server.faults.fail(f".*/messages/{uri.rpartition('/')[2]}/replies", status=500, times=None)
    live.transport.rewrite = without_replies
    assert stores.sync(live.connector)["teams"].state == "partial"
    assert [f.uri for f in stores.runs.failures("teams")] == [uri]
    assert stores.sync(live.connector)["teams"].state == "partial"
    assert stores.runs.failures("teams")[0].attempts == 2
    live.server.faults.clear()
    assert stores.sync(live.connector)["teams"].state == "complete"
    assert stores.runs.failures() == []
    assert stores.search(live.principal("iris"), "berth") == [uri]


def test_a_refused_token_fails_the_runs_and_takes_nothing_away(serve: Serve, engine: MakeEngine) -> None:
    live, stores = serve(_teams()), engine()
    stores.sync(live.connector)
    before = stores.texts(live.principal("teo"))
    live.server.faults.fail("/graph/v1.0", status=401, times=None)
    reports = stores.sync(live.connector)
    assert {name: r.state for name, r in reports.items()} == {"access": "failed", "teams": "blocked"}
    assert stores.texts(live.principal("teo")) == before


@pytest.mark.parametrize("when", ["before the checkpoint", "after the checkpoint"])
def test_a_sync_that_is_killed_at_any_batch_goes_on_and_ends_with_the_same_threads(
    serve: Serve, engine: MakeEngine, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    monkeypatch.setattr(reader_module, "BATCH", 2)
    teams = _teams()
    teams["Nord"]["channels"]["General"]["messages"] += [
        said(f"n{n}", f"note {n}", replies=[said(f"a{n}", "yes")]) for n in range(4)
    ]
    events = [
        event("edit", edit={"item": "message:Nord/General/n1", "by": "iris", "body": "edited note"}),
        event("gone", delete={"item": "message:Nord/General/n2"}),
        event("post", post={"channel": "message:Nord/General/n3", "message": said("late", "late answer")}),
    ]
    live, whole = serve(teams, events=events), engine()
    batches: list[int] = []
    whole.on_batch = lambda: batches.append(1)
    whole.sync(live.connector)
    first, total = whole.texts(live.principal("teo")), len(batches)
    assert total > 3
    killed: list[Engine] = []
    for stop in range(total):
        stores = engine()
        _kill(stores, when, stop)
        with pytest.raises(Killed):
            stores.sync(live.connector)
        _revive(stores)
        assert stores.sync(live.again())["teams"].state == "complete"
        assert stores.texts(live.principal("teo")) == first
        killed.append(stores)
    live.server.apply("post")
    whole.sync(live.connector)
    after = whole.texts(live.principal("teo"))
    assert after != first
    for stop, stores in enumerate(killed[:2]):
        _kill(stores, when, stop)
        with pytest.raises(Killed):
            stores.sync(live.again())
        _revive(stores)
        assert stores.sync(live.again())["teams"].state == "complete"
        assert stores.texts(live.principal("teo")) == after
        assert stores.points(live.principal("teo")) == whole.points(live.principal("teo"))


def _kill(stores: Engine, when: str, batches: int) -> None:
    """The process ends at batch number `batches`."""
    if when == "before the checkpoint":
        stores.runs.commits_left = batches
        return
    left = [batches]

    def end() -> None:
        if left[0] == 0:
            raise Killed
        left[0] -= 1

    stores.on_batch = end


def _revive(stores: Engine) -> None:
    stores.runs.commits_left = None
    stores.on_batch = lambda: None
