"""Throttling, failures, sign-in pages and holes: told apart, waited for or told, and never taken for "gone"."""

from __future__ import annotations

import pytest

from core.access import NOBODY
from core.errors import SourceAuthError, SourceError, SourceThrottledError
from core.items import ItemKind
from fixtures.sandbox.refs import Ref
from fixtures.sandbox.server import SandboxServer
from fixtures.sandbox.state_events import apply_event
from fixtures.sandbox.world_models import Event
from ingestion.connector import Failure, ItemUpserted
from tests.ingestion.azure_devops.support import Store, connect, reader_of

ADO = r"/ado/[^/]+"


def test_a_throttled_request_is_repeated_after_the_time_asked_for(contoso: SandboxServer) -> None:
    waits: list[float] = []
    connector = connect(contoso, waits)
    contoso.faults.throttle(f"/ado/{contoso.state.organization}/_apis/projects", times=2, retry_after=7)
    assert connector.access().complete
    assert len([w for w in waits if w >= 7]) == 2
    connector.close()


def test_a_wait_that_is_longer_than_a_run_ends_the_run(contoso: SandboxServer) -> None:
    waits: list[float] = []
    connector = connect(contoso, waits)
    contoso.faults.throttle(f"/ado/{contoso.state.organization}/_apis/projects", retry_after=300)
    with pytest.raises(SourceThrottledError) as caught:
        connector.access()
    assert caught.value.retry_after == 300
    assert waits == []
    connector.close()


def test_a_failing_source_is_tried_a_bounded_number_of_times(contoso: SandboxServer) -> None:
    waits: list[float] = []
    connector = connect(contoso, waits)
    contoso.faults.fail(f"{ADO}/_apis/projects$", status=503, times=None)
    with pytest.raises(SourceError):
        connector.access()
    assert len(waits) == 5
    assert waits == sorted(waits)
    connector.close()


@pytest.mark.parametrize("status", [200, 203, 302, 401])
def test_a_sign_in_page_is_a_refused_credential_and_is_not_repeated(status: int, contoso: SandboxServer) -> None:
    waits: list[float] = []
    connector = connect(contoso, waits)
    contoso.faults.fail(f"{ADO}/", status=status, times=None)
    for attempt in (connector.access, lambda: list(reader_of(connector, "work_items").read(None))):
        with pytest.raises(SourceAuthError):
            attempt()
    assert waits == []
    connector.close()


def test_a_wrong_token_is_refused_and_never_shown(contoso: SandboxServer) -> None:
    connector = connect(contoso, pat="zz-secret-zz")
    with pytest.raises(SourceAuthError) as caught:
        connector.access()
    assert "zz-secret-zz" not in str(caught.value)
    connector.close()


def test_one_broken_repo_does_not_stop_the_others_and_the_run_says_so(contoso: SandboxServer) -> None:
    connector = connect(contoso)
    state = contoso.state
    keys = [k for k in state.repos() if not state.repo_model(k).disabled]
    broken = state.git(keys[0])
    contoso.faults.fail(rf"{ADO}/.*{broken.id}/items", status=503, times=None)
    store, reader = Store(), reader_of(connector, "code")
    with pytest.raises(SourceError, match=state.repo_name(keys[0])):
        store.drain(reader)
    assert {i.container for i in store.items.values()} == {state.repo_name(k) for k in keys[1:]}
    contoso.faults.clear()
    store.sync(connector, ["code"])
    assert {i.container for i in store.items.values()} == {state.repo_name(k) for k in keys}
    connector.close()


@pytest.mark.parametrize("status", [403, 503])
def test_a_list_of_wikis_that_is_not_given_stops_only_what_stands_on_it(status: int, contoso: SandboxServer) -> None:
    connector, store = connect(contoso), Store()
    store.sync(connector)
    before = dict(store.items)
    contoso.faults.fail(rf"{ADO}/_apis/wiki/wikis$", status=status, times=None)
    for name in ("work_items", "pull_requests"):
        store.sync(connector, [name])
    assert store.items == before
    with pytest.raises(SourceError, match="wikis"):
        store.sync(connector, ["wikis"])
    if status == 503:
        # Which files are pages of a code wiki can't be told for now.
        with pytest.raises(SourceError, match="wiki pages"):
            store.sync(connector, ["code"])
        assert store.items == before
    else:
        # We may not see any wiki: what is in a repo is a file of it, until we may.
        store.sync(connector, ["code"])
        assert {u for u in before if u not in store.items} == set()
    contoso.faults.clear()
    store.sync(connector)
    assert store.items.keys() == before.keys()
    connector.close()


def test_a_list_of_repos_that_is_not_given_leaves_work_items_and_project_wikis_alone(contoso: SandboxServer) -> None:
    connector, store = connect(contoso), Store()
    store.sync(connector)
    before = dict(store.items)
    contoso.faults.fail(rf"{ADO}/_apis/git/repositories$", status=503, times=None)
    store.sync(connector, ["work_items"])
    for name in ("wikis", "code", "pull_requests"):
        with pytest.raises(SourceError, match="repos"):
            store.sync(connector, [name])
    assert store.items == before
    connector.close()


def test_a_changed_item_of_a_project_whose_areas_can_t_be_read_is_hidden_and_the_others_are_read(
    contoso: SandboxServer,
) -> None:
    connector, store = connect(contoso), Store()
    state = contoso.state
    store.sync(connector, ["work_items"])
    projects = {number: project for number, (project, _) in state.lookup.work_items.items()}
    broken = state.work_item_numbers()[0]
    fine = next(n for n in state.work_item_numbers() if projects[n] != projects[broken])
    for number in (broken, fine):
        edit = {"item": f"work_item:{number}", "by": next(iter(state.world.people)), "fields": {"System.Title": "Now"}}
        apply_event(state, Event.model_validate({"id": f"e{number}", "after": "9d", "edit": edit}))
    contoso.faults.fail(rf"{ADO}/{state.project_id(projects[broken])}/_apis/wit/classificationnodes", times=None)
    contoso.faults.fail(rf"{ADO}/{state.project_id(projects[broken])}/_apis/wit/classificationNodes", times=None)
    store.drain(reader_of(connector, "work_items"))
    uris = {n: f"ctx://ado/{state.organization}/work-items/{n}" for n in (broken, fine)}
    assert store.hidden == {uris[broken]}
    assert store.items[uris[fine]].title == "Now"
    with pytest.raises(SourceError, match="areas"):
        list(reader_of(connector, "work_items").present() or ())
    connector.close()


def test_a_repo_that_is_switched_off_is_closed_for_all_and_comes_back(contoso: SandboxServer) -> None:
    connector, store = connect(contoso), Store()
    state = contoso.state
    key = next(k for k in state.repos() if not state.repo_model(k).disabled)
    store.sync(connector)
    before = store.digests()
    state.repo_model(key).disabled = True
    state.record("repo", Ref("repo", (key,)))
    scope = f"ado/{(state.organization or '').lower()}/repo/{state.git(key).id}"
    assert next(s for s in connector.access().scopes if s.id == scope).acl == NOBODY
    store.sync(connector)
    assert not [i for i in store.items.values() if i.scope == scope]
    state.repo_model(key).disabled = False
    state.record("repo", Ref("repo", (key,)))
    store.sync(connector)
    assert store.digests() == before
    connector.close()


def test_an_unreadable_acl_closes_its_scopes(contoso: SandboxServer) -> None:
    connector = connect(contoso)
    contoso.faults.fail(rf"{ADO}/_apis/accesscontrollists/2e9eb7ed", status=403, times=None)
    snapshot = connector.access()
    assert not snapshot.complete
    assert snapshot.every_scope
    assert all(s.acl == NOBODY for s in snapshot.scopes if s.kind in ("repo", "wiki"))
    assert any(s.acl != NOBODY for s in snapshot.scopes if s.kind == "area")
    connector.close()


def test_an_acl_that_fails_for_now_leaves_its_scopes_out_of_an_incomplete_snapshot(contoso: SandboxServer) -> None:
    connector = connect(contoso)
    contoso.faults.fail(rf"{ADO}/_apis/accesscontrollists/2e9eb7ed", status=503, times=None)
    snapshot = connector.access()
    assert not snapshot.complete
    assert not snapshot.every_scope
    assert {s.kind for s in snapshot.scopes} == {"area"}
    connector.close()


def test_members_that_could_not_be_read_are_unknown_and_not_none(contoso: SandboxServer) -> None:
    connector = connect(contoso)
    contoso.faults.fail(rf"{ADO}/_apis/graph/memberships", status=503, times=None)
    contoso.faults.fail(rf"{ADO}/_apis/graph/Memberships", status=503, times=None)
    contoso.faults.fail(rf"{ADO}/_apis/userentitlements", status=503, times=None)
    snapshot = connector.access()
    assert not snapshot.complete
    assert all(c.members is None for c in snapshot.containers)
    connector.close()


def test_a_hole_in_a_batch_hides_an_item_and_stops_nothing(contoso: SandboxServer) -> None:
    connector = connect(contoso)
    numbers = contoso.state.work_item_numbers()[:2]
    org = contoso.state.organization
    uris = [f"ctx://ado/{org}/work-items/{n}" for n in (numbers[0], 999_999, numbers[1])]
    changes = list(reader_of(connector, "work_items").fetch(uris))
    assert [type(c) for c in changes] == [ItemUpserted, ItemUpserted, Failure]
    failure = changes[-1]
    assert isinstance(failure, Failure)
    assert failure.uri == uris[1]
    assert failure.hide
    connector.close()


def test_comments_that_fail_leave_their_item_to_be_tried_again(contoso: SandboxServer) -> None:
    connector = connect(contoso)
    number = next(n for n in contoso.state.work_item_numbers() if contoso.state.comments(n))
    contoso.faults.fail(rf"{ADO}/.*/workItems/{number}/comments", status=500, times=None)
    store, reader = Store(), reader_of(connector, "work_items")
    store.drain(reader)
    uri = f"ctx://ado/{contoso.state.organization}/work-items/{number}"
    assert list(store.failures) == [uri]
    assert not store.failures[uri].hide
    contoso.faults.clear()
    assert [type(c) for c in reader.fetch([uri])] == [ItemUpserted]
    connector.close()


def test_only_what_the_administrator_lists_is_read(contoso: SandboxServer) -> None:
    project = next(p for p, m in contoso.state.lookup.projects.items() if m.work_items)
    connector, store = connect(contoso, projects=(project,)), Store()
    store.sync(connector)
    assert store.items
    assert {i.attributes["project"] for i in store.items.values()} == {project}
    assert {s.attributes["project"] for s in connector.access().scopes} == {project}
    connector.close()


def test_the_sdk_keeps_nothing_on_disk(contoso: SandboxServer) -> None:
    connector = connect(contoso)
    connector.access()
    from azure.devops._file_cache import OPTIONS_CACHE, RESOURCE_CACHE

    assert not OPTIONS_CACHE.file_name
    assert not RESOURCE_CACHE.file_name
    assert OPTIONS_CACHE.data
    connector.close()


def test_deleted_comments_are_never_read(contoso: SandboxServer) -> None:
    connector, store = connect(contoso), Store()
    store.sync(connector, ["work_items"])
    state = contoso.state
    deleted = [
        comment.text
        for number in state.work_item_numbers()
        for n, comment in state.comments(number, deleted=True)
        if (n, comment) not in state.comments(number)
    ]
    said = {p.text for i in store.items.values() for p in i.parts}
    assert not said & set(deleted)
    assert {i.kind for i in store.items.values()} == {ItemKind.WORK_ITEM}
    connector.close()


def test_many_items_that_fail_one_after_the_other_do_not_keep_the_rest_from_being_read(contoso: SandboxServer) -> None:
    waits: list[float] = []
    connector, store = connect(contoso, waits), Store()
    contoso.faults.fail(rf"{ADO}/.*/_apis/wiki/wikis/[^/]+/pages/\d+$", status=503, times=None)
    reader = reader_of(connector, "wikis")
    store.drain(reader)
    assert len(store.failures) > 12
    assert store.items == {}
    # The first ones are tried as often as any; then the service is asked something else, and answers: it is the pages,
    # and none of them is worth a wait.
    assert len(waits) == 4 * 5
    contoso.faults.clear()
    again = {c.item.uri for c in reader.fetch(sorted(store.failures)) if isinstance(c, ItemUpserted)}
    assert again == store.failures.keys()
    # Patient again, now that one has succeeded.
    contoso.faults.fail(rf"{ADO}/.*/_apis/wiki/wikis/[^/]+/pages/\d+$", status=503, times=5)
    list(reader.fetch(sorted(store.failures)[:1]))
    assert len(waits) == 5 * 5
    connector.close()


def test_a_source_that_answers_nothing_any_more_ends_the_run(contoso: SandboxServer) -> None:
    connector = connect(contoso)
    reader = reader_of(connector, "work_items")
    batches = reader.read(None)
    next(batches)
    contoso.faults.fail(ADO, status=503, times=None)
    with pytest.raises(SourceError):
        list(batches)
    connector.close()
