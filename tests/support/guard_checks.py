"""What must always hold, as small checks of a laboratory that holds the company at the border (`tests.support.border`).

Each is used twice: by the tests, which want it to pass, and by `test_mutants`, which breaks one guard at a time and
wants it to fail. Failing is an AssertionError, or an error of the engine's own where it refuses to go on.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from types import ModuleType
from typing import Any

import jwt
import numpy as np
import pytest
from psycopg.sql import Composed

import graph.edges
import graph.glossary
import graph.reading
import graph.supersession
from context_engine.guards import build_limiter
from core.access import ScopeAcl, issue_verified
from core.clock import SystemClock
from core.errors import InvariantError, NotFoundError, RateLimitedError
from core.guards import RateLimitSettings
from core.index import filters
from core.index.port import HybridQuery, SearchLeg
from core.items import Item, Source
from core.principals import PrincipalSet, issue_asker, issue_principal_set
from core.text.tokens import sparse_query
from graph.epoch import move_epoch
from graph.records import ItemStore
from graph.scopes import ScopeStore
from graph.visible import seen_by
from ingestion.pipeline import Tally
from tests.sandbox.small import TENANT
from tests.support import border
from tests.support.laboratory import Lab
from tests.support.plain_access import PlainAccess, principal_of

# Statements that return the columns of items themselves.
_WHOLE_ITEMS = frozenset({"_BY_URI", "_FULL", "_NAMED"})
# Modules of the record that hold trimmed statements of the query plane.
STATEMENT_MODULES: tuple[ModuleType, ...] = (graph.reading, graph.edges, graph.glossary, graph.supersession)


@dataclass
class Border:
    """The company at the border twice: whole, and without what `border.ASKER` may not read."""

    whole: Lab
    without: Lab
    items: list[Item]

    def readable(self, person: str) -> set[str]:
        """The addresses that the naive model opens to a person."""
        return {i.uri for i in self.items if border.may_read(person, i.scope)}

    def hidden_words(self, person: str) -> set[str]:
        """Addresses, and words that stand in unreadable items alone; empty for whoever reads all."""
        unreadable = [i for i in self.items if not border.may_read(person, i.scope)]
        words = {i.uri.lower() for i in unreadable}
        return words | border.hidden_words(unreadable) if person == border.ASKER else words


def comparable(answer: Any) -> Any:
    """An answer without ids, times of making and of syncing: what must be the same byte for byte."""
    data = copy.deepcopy(answer)
    for key in ("id", "made_at"):
        data.pop(key, None)
    for source in data.get("sources", ()):
        source.pop("synced_at")
    return json.dumps(data, sort_keys=True, ensure_ascii=False)


def assert_answers_are_what_may_be_read(
    at: Border, person: str = border.ASKER, questions: Sequence[str] = border.QUESTIONS
) -> None:
    """Everything told to a person is theirs to read, and what they may read opens; the rest is not there."""
    readable, hidden = at.readable(person), at.hidden_words(person)
    for question in questions:
        told = json.dumps(at.whole.ask(person, question), ensure_ascii=False).lower()
        told = told.replace(json.dumps(question.lower())[1:-1], "")
        assert [w for w in sorted(hidden) if w in told] == [], question
    opened = [i for i in at.items if i.uri in readable or i.source is Source.WIKIS][
        :: 1 if person == border.ASKER else 5
    ]
    for item in opened:
        answer = at.whole.call(person, "GET", "/v1/items", params={"uri": item.uri})
        assert answer.status_code == (200 if item.uri in readable else 404), (person, item.scope, item.title)
        assert [w for w in sorted(hidden) if w in answer.text.lower()] == [], item.title


def assert_askers_in_turn_are_told_their_own(at: Border) -> None:
    """Whoever asks after somebody who may read more is told no more by it."""
    for person in (border.OTHER, border.ASKER, border.OTHER, border.NOBODY):
        assert_answers_are_what_may_be_read(at, person, border.QUESTIONS[:2])


def assert_a_program_sees_what_its_policy_and_its_grants_open(at: Border) -> None:
    """A program on its own is told what it was granted, within the spaces that its policy lists, and nothing else."""
    told = at.whole.ask(border.PROGRAM, border.QUESTIONS[0], max_tokens=20_000)
    shown = {e["uri"] for e in told["evidence"]} | {p["uri"] for p in told["more"]["items"]}
    assert shown
    assert shown <= at.readable(border.PROGRAM)
    for item in at.items:
        answer = at.whole.call(border.PROGRAM, "GET", "/v1/items", params={"uri": item.uri})
        assert answer.status_code == (200 if item.uri in at.readable(border.PROGRAM) else 404), item.scope
    stray = at.whole.call(border.STRAY, "POST", "/v1/context", json={"question": border.QUESTIONS[0]})
    assert stray.status_code == 403


def assert_nothing_depends_on_hidden_items(at: Border) -> None:
    """The bundle is the same with and without what its asker may not read: order, scores, people, meanings, marks."""
    for question in border.QUESTIONS:
        whole, without = (lab.ask(border.ASKER, question) for lab in (at.whole, at.without))
        assert comparable(whole) == comparable(without), question


def assert_a_search_finds_exactly_what_may_be_read(at: Border, person: str = border.ASKER) -> None:
    """A search of the index under a trim returns every readable item and no other, before any second check."""
    lab = at.whole
    query = HybridQuery(
        dense=np.ones(16, dtype=np.float32) / 4,
        sparse=sparse_query("harbor invoices settlement"),
        legs=tuple(SearchLeg(sources=(s,), limit=200) for s in Source),
    )
    found = {c.uri for c in lab.index.reader.search(lab.trim(person), query)}
    assert found == at.readable(person)


def assert_statements_name_nothing_hidden(at: Border) -> None:
    """Each statement of the query plane, run by itself under a trim, returns nothing of a hidden item."""
    for name, statement in trimmed_statements():
        assert_a_statement_names_nothing_hidden(at, name, statement)


def assert_a_statement_names_nothing_hidden(at: Border, name: str, statement: Composed) -> None:
    """One statement, with parameters that would find everything."""
    trim, hidden = at.whole.trim(border.ASKER), at.hidden_words(border.ASKER)
    if name.rpartition(".")[2] in _WHOLE_ITEMS:
        # What a readable item says itself is its own to say.
        own = [i for i in at.items if i.uri in at.readable(border.ASKER)]
        hidden -= {text.lower() for i in own for text in (*i.replaced_by, *(link.to for link in i.links))}
    with at.whole.query.connection() as connection:
        everything = {
            "uris": [i.uri for i in at.items],
            "aliases": ["settle.py", *(i.title.lower() for i in at.items)],
            "key": "sla",
            "keys": ["sla", *(f"qz{n}x" for n in range(len(border.HIDING)))],
            "phrases": ["service level agreement", *(f"quartz zenith {n} xenon" for n in range(len(border.HIDING)))],
            "names": [*(i.title.lower() for i in at.items)],
            "person": at.whole.who("zed"),
            "limit": 1000,
        }
        rows = connection.execute(statement, seen_by(trim, **everything)).fetchall()
    told = json.dumps(rows, default=str).lower()
    assert [w for w in sorted(hidden) if w in told] == [], name


def trimmed_statements() -> list[tuple[str, Composed]]:
    """Every statement that `graph.visible.trimmed` made, by module and name: a new one is here by itself."""
    return [
        (f"{module.__name__}.{name}", value)
        for module in STATEMENT_MODULES
        for name, value in sorted(vars(module).items())
        if isinstance(value, Composed) and "%(readable)s" in (text := value.as_string(None)) and "SELECT" in text
    ]


def assert_find_names_nothing_hidden(at: Border) -> None:
    """Items looked up by any name are readable ones."""
    lab, readable = at.whole, at.readable(border.ASKER)
    trim, store = lab.trim(border.ASKER), ItemStore(lab.query)
    for item in at.items:
        by_name = [
            store.find(trim, title=item.title),
            store.find(trim, url=item.url),
            store.find(trim, alias=item.title),
        ]
        by_name.append(store.find(trim, number=item.number, source=item.source) if item.number else [])
        assert {row.uri for rows in by_name for row in rows} <= readable, item.title


@contextmanager
def epoch_moved(at: Border) -> Iterator[None]:
    """Nothing that was cached before is used inside, and nothing cached inside is used after."""

    def move() -> None:
        for lab in (at.whole, at.without):
            with lab.ingest.connection() as connection:
                move_epoch(connection)

    move()
    try:
        yield
    finally:
        move()


def assert_rules_are_read_as_written(at: Border) -> None:
    """The exact rule of every scope says of everybody what the naive model says, and no rule opens nothing."""
    for person in border.PEOPLE:
        counted = _closure(at.whole, border.ACCESS, person)
        for scope in border.ACCESS.scopes(at.whole):
            expected = border.ACCESS.may_read(person, scope.id) or (
                person in border.ACCESS.left and _if_not_left(person, scope.id)
            )
            assert scope.acl.permits(counted) == expected, (person, scope.id)
        assert not ScopeAcl().permits(counted)


def _if_not_left(person: str, scope: str) -> bool:
    return replace(border.ACCESS, left=frozenset()).may_read(person, scope)


def _closure(lab: Lab, access: PlainAccess, person: str) -> frozenset[Any]:
    grown, found = True, {person}
    while grown:
        more = {f"group:{g}" for g, members in access.groups.items() if found & set(members)} - found
        grown, found = bool(more), found | more
    return frozenset(principal_of(lab, name) for name in found)


def assert_an_empty_set_finds_nothing(at: Border) -> None:
    """C050: nobody's principals are no proof; a trim that names nobody makes no filter and no call to the index."""
    asker = issue_asker(principal=at.whole.who(border.ASKER), tenant=TENANT, agent=None, scopes=frozenset())
    with pytest.raises(InvariantError):
        issue_principal_set(asker, frozenset())
    with pytest.raises((InvariantError, TypeError)):
        issue_principal_set(asker, None)  # type: ignore[arg-type]
    trim = at.whole.trim(border.NOBODY)
    assert trim.sees_nothing
    for dialect in (filters.EdgeDialect(), filters.ServerDialect()):
        with pytest.raises(InvariantError):
            filters.readable(dialect, trim)
        for given in ((), None):
            with pytest.raises((InvariantError, TypeError)):
                filters.of_items(dialect, given)  # type: ignore[arg-type]
    assert at.whole.index.reader.count(trim) == 0
    with no_call_of_the_index(at.whole):
        assert at.whole.ask(border.NOBODY, border.QUESTIONS[0])["evidence"] == []


@contextmanager
def no_call_of_the_index(lab: Lab) -> Iterator[None]:
    """Fail where the engine of the index is called at all."""
    shard = lab.index.reader._shard
    original: Callable[..., Any] = shard.run

    def refused(_: Any) -> Any:
        raise AssertionError("the index was called")

    shard.run = refused  # type: ignore[method-assign]
    try:
        yield
    finally:
        shard.run = original  # type: ignore[method-assign]


def assert_unconfirmed_items_stay_out(at: Border) -> None:
    """From a label on, an item is in no search and no statement unless its source has confirmed it for this asker."""
    lab = at.whole
    sealed = next(i for i in at.items if i.title == border.SEALED)
    scopes = ScopeStore(lab.query, revocation_limit=lab.settings.revocation_limit, free_labels=("Public", "Internal"))
    principals = lab.principals(border.ASKER)
    word = issue_verified(principals, [sealed.uri], asked=1)
    for trim, expected in ((scopes.trim_for(principals), set()), (scopes.trim_for(principals, word), {sealed.uri})):
        legs = (SearchLeg(sources=(Source.WIKIS,), limit=200),)
        query = HybridQuery(dense=np.ones(16, dtype=np.float32) / 4, sparse=sparse_query("sealed invoices"), legs=legs)
        assert {c.uri for c in lab.index.reader.search(trim, query)} & {sealed.uri} == expected
        assert set(ItemStore(lab.query).visible(trim, [sealed.uri])) == expected
    with pytest.raises(InvariantError):
        scopes.trim_for(lab.principals(border.OTHER), word)


def assert_too_many_questions_are_refused(at: Border) -> None:
    """Whoever asks faster than allowed is refused, whatever they ask, and others are not."""
    lab = at.whole
    limited = lab.settings.model_copy(update={"rate_limits": RateLimitSettings(asker_per_minute=1, asker_burst=2)})
    service = replace(lab.services.service, limiter=build_limiter(limited))
    asker, other = (service.asker(f"Bearer {lab.token(p)}") for p in (border.ASKER, border.OTHER))
    service.people(asker, "invoices")
    with pytest.raises(NotFoundError):
        service.item(asker, "ctx://nothing")
    for refused in (lambda: service.people(asker, "invoices"), lambda: service.item(asker, "ctx://nothing")):
        with pytest.raises(RateLimitedError):
            refused()
    service.people(other, "invoices")


def assert_the_record_decides(at: Border) -> None:
    """What the record hides, moves to a scope that is shut, or holds in another version is not shown, although the
    index has it still."""
    uri, question = _a_readable_page(at), border.QUESTIONS[0]
    assert uri in _shown(at.whole, question)
    for change in ("lifecycle = 'hidden'", "scope = 'private'", "chunk_digests = '{}'"):
        with changed_row(at.whole, uri, change):
            assert uri not in _shown(at.whole, question), change
    assert uri in _shown(at.whole, question)


@contextmanager
def changed_row(lab: Lab, uri: str, change: str) -> Iterator[None]:
    """One item's row in the record is otherwise for a while; the index is not told."""
    with lab.ingest.connection() as connection:
        before = connection.execute(
            "SELECT lifecycle, scope, chunk_digests FROM items WHERE uri = %s", [uri]
        ).fetchone()
        connection.execute(f"UPDATE items SET {change} WHERE uri = %s", [uri])  # type: ignore[arg-type]
    try:
        yield
    finally:
        with lab.ingest.connection() as connection:
            assert before is not None
            connection.execute(
                "UPDATE items SET lifecycle = %(lifecycle)s, scope = %(scope)s, chunk_digests = %(chunk_digests)s "
                "WHERE uri = %(uri)s",
                {**before, "uri": uri},
            )


def assert_a_revocation_is_obeyed_by_the_next_question(at: Border) -> None:
    """One row, and the next question, search and opening lack the item, before any point was rewritten."""
    lab, uri, question = at.whole, _a_readable_page(at), border.QUESTIONS[0]
    assert uri in _shown(lab, question)
    shut = replace(border.ACCESS, rules={**border.ACCESS.rules, "open": border.ACCESS.rules["private"]})
    try:
        lab.permissions(shut.scopes(lab))
        assert uri not in _shown(lab, question)
        assert lab.call(border.ASKER, "GET", "/v1/items", params={"uri": uri}).status_code == 404
        found = lab.index.reader.count(lab.trim(border.ASKER))
        lab.rewrite_index()
        assert lab.index.reader.count(lab.trim(border.ASKER)) == found, "a search counted what the rule shut"
    finally:
        lab.permissions(border.ACCESS.scopes(lab))
        lab.rewrite_index()
    assert uri in _shown(lab, question)


def assert_a_lost_membership_is_obeyed_by_the_next_question(at: Border) -> None:
    """Who leaves a group is told nothing more of what only the group may read."""
    lab, question = at.whole, border.QUESTIONS[0]
    assert _shown(lab, question)
    without = replace(border.ACCESS, groups={**border.ACCESS.groups, "inner": ["group:outer"]})
    try:
        lab.directory(without.containers(lab))
        assert _shown(lab, question) == set()
    finally:
        lab.directory(border.ACCESS.containers(lab))
    assert _shown(lab, question)


def assert_old_permissions_are_shut(at: Border) -> None:
    """Permissions that were read longer ago than the limit open nothing."""
    lab, question = at.whole, border.QUESTIONS[0]
    now = SystemClock().now()
    try:
        lab.permissions(border.ACCESS.scopes(lab), at=now - lab.settings.revocation_limit - timedelta(seconds=60))
        assert _shown(lab, question) == set()
    finally:
        lab.permissions(border.ACCESS.scopes(lab))
    assert _shown(lab, question)


def assert_what_is_withheld_is_out_of_search(at: Border) -> None:
    """An item that its source no longer shows is out of the index's reach at once, and is there again when it comes
    back."""
    lab, uri = at.whole, _a_readable_page(at)
    item = next(i for i in at.items if i.uri == uri)
    lab.pipeline.hide(uri, reason="not found", at=SystemClock().now())
    try:
        found = lab.index.reader.count(lab.trim(border.ASKER))
        lab.pipeline.delete([uri], at=SystemClock().now(), reason="gone", tally=Tally(), stated=False)
        assert lab.index.reader.count(lab.trim(border.ASKER)) == found, "it was withheld, and a search counted it"
        assert lab.call(border.ASKER, "GET", "/v1/items", params={"uri": uri}).status_code == 404
    finally:
        _write_anew(lab, item)
    assert lab.call(border.ASKER, "GET", "/v1/items", params={"uri": uri}).status_code == 200


def assert_a_deletion_is_obeyed_before_the_index_is(at: Border) -> None:
    """A tombstone in the record is enough."""
    lab, uri = at.whole, _a_readable_page(at)
    item = next(i for i in at.items if i.uri == uri)
    lab.items.tombstone([uri], at=SystemClock().now(), reason="deleted", stated=False)
    try:
        assert uri not in _shown(lab, border.QUESTIONS[0])
        assert lab.call(border.ASKER, "GET", "/v1/items", params={"uri": uri}).status_code == 404
    finally:
        _write_anew(lab, item)


def assert_bad_tokens_are_refused(at: Border) -> None:
    """Only a token of the trusted issuer, for us, in time, and signed by it says who asks."""
    lab = at.whole
    for why, token in bad_tokens(lab).items():
        answer = lab.client.get("/v1/items", params={"uri": "x"}, headers={"Authorization": f"Bearer {token}"})
        assert answer.status_code == 401, why


def bad_tokens(lab: Lab) -> dict[str, str]:
    """Tokens with one thing wrong each."""
    person = border.ASKER
    good = lab.token(person)
    return {
        "audience": lab.token(person, audience="api://other-app"),
        "expired": lab.token(person, expires_in=-600),
        "issuer": lab.token(person, overrides={"iss": "https://login.example/other/v2.0"}),
        "tenant": lab.token(person, overrides={"tid": "00000000-0000-4000-8000-000000000bad"}),
        "unsigned": lab.token(person, signing="none"),
        "public key as a secret": lab.token(person, signing="hs256_public_key"),
        "foreign key": lab.token(person, signing="foreign_key"),
        "changed payload": lab.token(person, signing="tampered"),
        "swapped payload": ".".join((good.split(".")[0], lab.token(border.OTHER).split(".")[1], good.split(".")[2])),
        "id token": lab.token(person, overrides={"nonce": "n-0S6"}),
        "nobody of ours": lab.token(person, overrides={"oid": "00000000-0000-4000-8000-00000000dead"}),
        "not yet": lab.token(person, overrides={"nbf": jwt.decode(good, options={"verify_signature": False})["exp"]}),
    }


def assert_who_left_is_refused(at: Border) -> None:
    """A disabled account is refused, whatever its token says."""
    answer = at.whole.call(border.LEAVER, "POST", "/v1/context", json={"question": border.QUESTIONS[0]})
    assert answer.status_code == 401
    assert answer.json()["type"].endswith("disabled_account")


def assert_scopes_of_tokens_are_enforced(at: Border) -> None:
    """Without the scope to read nothing is answered, and without the administrators' scope no status is."""
    lab = at.whole
    for scopes, path, expected in (
        (["user.read"], "/v1/people", 403),
        (["context.read"], "/v1/people", 200),
        (["context.read"], "/v1/status", 403),
        (["context.read", "context.admin"], "/v1/status", 200),
    ):
        token = lab.token(border.ASKER, scopes=scopes)
        headers = {"Authorization": f"Bearer {token}"}
        params = {"topic": "invoices"} if path == "/v1/people" else {}
        assert lab.client.get(path, params=params, headers=headers).status_code == expected, (scopes, path)


def assert_each_answer_is_recorded(at: Border) -> None:
    """Every answer and refusal of access leaves one entry, and none is given without a recorded access check."""
    lab = at.whole
    before = _audited(lab)
    assert lab.call(border.ASKER, "GET", "/v1/people", params={"topic": "invoices"}).status_code == 200
    assert lab.call(border.ASKER, "GET", "/v1/definitions", params={"term": "SLA"}).status_code == 200
    assert lab.call(border.ASKER, "GET", "/v1/items", params={"uri": "ctx://x"}).status_code == 404
    assert lab.call(border.ASKER, "POST", "/v1/context", json={"question": "invoices"}).status_code == 200
    assert _audited(lab) == before + 4


def assert_quotes_are_fenced_anew(at: Border) -> None:
    """Markdown quotes what it was given between fences that no text can know, each response its own."""
    texts = []
    for _ in range(2):
        body = {"question": border.QUESTIONS[0]}
        answer = at.whole.call(border.ASKER, "POST", "/v1/context", json=body, headers={"Accept": "text/markdown"})
        texts.append(answer.text)
    fences = [next(x for x in text.splitlines() if x.isalpha() and len(x) >= 28) for text in texts]
    assert fences[0] != fences[1]
    assert all(text.count(fence) >= 3 for text, fence in zip(texts, fences, strict=True))


def assert_proofs_cannot_be_forged(at: Border) -> None:
    """A principal set or a trim that was not issued is none."""
    trim = at.whole.trim(border.ASKER)
    with pytest.raises(InvariantError):
        PrincipalSet(asker=trim.principals.asker, principals=trim.principals.principals, seal=object())
    with pytest.raises(InvariantError):
        replace(trim, seal=object())
    with pytest.raises(ValueError, match="seal"):
        replace(trim, readable=frozenset({"private"}))


def _a_readable_page(at: Border) -> str:
    return next(i.uri for i in at.items if i.title == "Invoice settlement")


def _write_anew(lab: Lab, item: Item) -> None:
    """Write an item, whatever record and index hold of it now."""
    with lab.ingest.connection() as connection:
        connection.execute("UPDATE items SET indexed_digest = NULL WHERE uri = %s", [item.uri])
    lab.write([item])


def _shown(lab: Lab, question: str) -> set[str]:
    bundle = lab.ask(border.ASKER, question)
    return {e["uri"] for e in bundle["evidence"]} | {p["uri"] for p in bundle["more"]["items"]}


def _audited(lab: Lab) -> int:
    with lab.ingest.connection() as connection:
        row = connection.execute("SELECT count(*) AS n FROM audit").fetchone()
    assert row is not None
    return int(row["n"])
