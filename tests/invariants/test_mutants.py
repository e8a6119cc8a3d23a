"""Each guard is shown able to fail: with one guard broken in this process, the check that decides on it fails.

A mutant names what it breaks and the check that kills it; the checks are those of `test_guards`, which pass without
it. Every trimmed statement is broken as well, at each of its conditions, so that a new one is covered by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import jwt
import pytest
from psycopg.sql import SQL, Composed

import core.access
import core.index.edge
import core.principals
import core.render
import graph.moment
import graph.scopes
import graph.visible
import query.identity
import query.retrieve
import query.service
from core.access import Gate, GateVerdict, Outcome, ScopeAcl, Trim
from core.errors import ContextEngineError
from core.index import filters
from core.index import reading as shared_search
from core.index.edge import EdgeWriter
from core.journal import AccessJournal
from core.principals import PrincipalSet
from graph.audit import AuditLog
from graph.directory import DirectoryStore
from graph.records import ItemStore
from query.limits import AskerLimiter
from query.principal_cache import LocalPrincipalCache
from query.retrieve import Retriever
from tests.support import guard_checks as checks
from tests.support.guard_checks import Border

Patch = pytest.MonkeyPatch
Check = Callable[[Border], None]


@dataclass(frozen=True)
class Mutant:
    """`broken` breaks one guard for the length of a test; `killed_by` is the check that must notice."""

    name: str
    broken: Callable[[Patch], None]
    killed_by: Check


def _drop_condition(patch: Patch, name: str, place: int) -> None:
    """Take one condition out of a statement; its parameters stay, so that it still runs."""
    module, _, attribute = name.rpartition(".")
    statement: Composed = getattr(__import__(module, fromlist=[attribute]), attribute)
    parts = list(statement)
    parts[_places(statement)[place]] = SQL("(TRUE OR cardinality(%(readable)s::text[]) < 0)")
    patch.setattr(f"{module}.{attribute}", Composed(parts))


def _places(statement: Composed) -> list[int]:
    conditions = (graph.visible.VISIBLE, graph.visible._OTHER_VISIBLE)
    return [n for n, part in enumerate(statement) if part in conditions]


# --- the rule


def deny_is_ignored(patch: Patch) -> None:
    _verdicts(patch, lambda gate, mine: [(layer, frozenset(), mine & layer.allow) for layer in gate.layers])


def layers_are_reversed(patch: Patch) -> None:
    _verdicts(patch, lambda gate, mine: [(x, mine & x.deny, mine & x.allow) for x in reversed(gate.layers)])


def allow_beats_deny(patch: Patch) -> None:
    _verdicts(
        patch,
        lambda gate, mine: [(x, (mine & x.deny) if not mine & x.allow else (), mine & x.allow) for x in gate.layers],
    )


def _verdicts(patch: Patch, steps: Callable[[Gate, frozenset[Any]], list[tuple[Any, Any, Any]]]) -> None:
    def verdict(gate: Gate, mine: frozenset[Any]) -> GateVerdict:
        for layer, denied, allowed in steps(gate, mine):
            if denied or allowed:
                outcome = Outcome.DENIED if denied else Outcome.ALLOWED
                return GateVerdict(gate.name, outcome, layer.node, tuple(sorted(denied or allowed)))
        return GateVerdict(gate.name, Outcome.NOT_NAMED)

    patch.setattr(core.access, "_verdict", verdict)


def nobody_named_may_pass(patch: Patch) -> None:
    patch.setattr(
        ScopeAcl, "permits", lambda self, mine: all(v.outcome is not Outcome.DENIED for v in self.explain(mine))
    )


def one_gate_is_enough(patch: Patch) -> None:
    _permits(patch, lambda outcomes: any(o is Outcome.ALLOWED for o in outcomes))


def no_gates_let_everybody_in(patch: Patch) -> None:
    _permits(patch, lambda outcomes: all(o is Outcome.ALLOWED for o in outcomes))


def _permits(patch: Patch, of: Callable[[list[Outcome]], bool]) -> None:
    patch.setattr(ScopeAcl, "permits", lambda self, mine: of([v.outcome for v in self.explain(mine)]))


def bars_are_ignored(patch: Patch) -> None:
    patch.setattr(graph.scopes, "bars", lambda *_, **__: ())


# --- caches and freshness


def trims_are_kept_without_their_asker(patch: Patch) -> None:
    patch.setattr(PrincipalSet, "digest", property(lambda self: "the same for all"))


def the_moment_never_passes(patch: Patch) -> None:
    seen: list[Any] = []
    original = graph.scopes.moment_of

    def first(*given: Any) -> Any:
        seen.append(original(*given))
        return seen[0]

    patch.setattr(graph.scopes, "moment_of", first)


def the_epoch_stands_still(patch: Patch) -> None:
    patch.setattr(graph.scopes, "read_epoch", lambda _: 1)
    original = graph.scopes.moment_of
    patch.setattr(graph.scopes, "moment_of", lambda *given: replace(original(*given), epoch=1))


def permissions_never_grow_old(patch: Patch) -> None:
    original = graph.scopes.moment_of
    everything = frozenset({"azure_devops", "teams"})
    patch.setattr(graph.scopes, "moment_of", lambda *given: replace(original(*given), fresh=everything, directory=True))


def principal_sets_are_kept_without_their_asker(patch: Patch) -> None:
    kept: list[Any] = []
    patch.setattr(LocalPrincipalCache, "put", lambda self, principal, epoch, found: kept.append(found))
    patch.setattr(LocalPrincipalCache, "get", lambda self, principal, epoch: kept[-1] if kept else None)


def policies_are_ignored(patch: Patch) -> None:
    original = graph.scopes.bars
    patch.setattr(graph.scopes, "bars", lambda *given, **named: original(*given, **{**named, "spaces": None}))


# --- the search


def the_filter_names_everybody(patch: Patch) -> None:
    """Every filter lets all points through, and neither of the two looks at what goes out and comes in notices."""

    def everybody(dialect: Any, trim: Trim, narrowing: Any = filters.EVERYWHERE) -> Any:
        kept = [dialect.has_id(narrowing.ids)] if narrowing.ids else []
        return dialect.all_of([dialect.any_of("source", list(query.retrieve.Source)), *kept], [])

    patch.setattr(filters, "readable", everybody)
    patch.setattr(filters, "assert_trimmed", lambda *_: None)
    _trust_the_index(patch)


def the_filter_lacks_the_asker(patch: Patch) -> None:
    """A filter that names nobody is not sent: the look at what goes out refuses."""
    patch.setattr(filters, "readable", lambda d, t, n=filters.EVERYWHERE: d.all_of([d.any_of("source", ["wikis"])], []))


def blocked_scopes_are_ignored(patch: Patch) -> None:
    original = core.access.Trim

    def unblocked(**given: Any) -> Trim:
        return original(**{**given, "blocked": ()})

    patch.setattr(core.access, "Trim", unblocked)


def document_frequencies_are_of_everything(patch: Patch) -> None:
    original = core.index.edge.q.IdfParams
    edge = SimpleNamespace(**{n: getattr(core.index.edge.q, n) for n in dir(core.index.edge.q) if n[0] != "_"})
    edge.IdfParams = lambda corpus: original()
    patch.setattr(core.index.edge, "q", edge)
    patch.setattr(filters, "assert_trimmed", lambda *_: None)


def an_empty_set_makes_an_open_filter(patch: Patch) -> None:
    original = filters.readable

    def lenient(dialect: Any, trim: Trim, narrowing: Any = filters.EVERYWHERE) -> Any:
        return original(dialect, trim, narrowing) if trim.matching else dialect.all_of([], [])

    patch.setattr(filters, "readable", lenient)


def whoever_sees_nothing_is_searched_for(patch: Patch) -> None:
    patch.setattr(Trim, "sees_nothing", property(lambda self: False))


def _trust_the_index(patch: Patch) -> None:
    original = shared_search._candidate

    def candidate(trim: Trim, hit: Any, score: float) -> Any:
        everybody = SimpleNamespace(
            matching=(hit.payload or {}).get("allowed") or ("nobody",),
            blocked=(),
            late=None,
            asks_source=lambda label: False,
        )
        hit = replace(hit, payload={**(hit.payload or {}), "allowed": everybody.matching})
        return original(everybody, hit, score)  # type: ignore[arg-type]

    patch.setattr(shared_search, "_candidate", candidate)


# --- the record


def the_second_check_is_skipped(patch: Patch) -> None:
    """Candidates count as they come from the index; their rows are read without the trim."""
    _drop_condition(patch, "graph.reading._BY_URI", 0)

    def unchecked(self: Retriever, trim: Trim, candidates: Any) -> Any:
        rows = self._items.visible(trim, sorted({c.uri for c in candidates}))
        return rows, list(candidates)

    patch.setattr(Retriever, "_second_check", unchecked)


def the_second_check_forgets_the_scope_and_the_text(patch: Patch) -> None:
    def lenient(self: Retriever, trim: Trim, candidates: Any) -> Any:
        rows = self._items.visible(trim, sorted({c.uri for c in candidates}))
        return rows, [c for c in candidates if c.uri in rows]

    patch.setattr(Retriever, "_second_check", lenient)


def names_are_looked_up_everywhere(patch: Patch) -> None:
    patch.setattr("graph.reading.VISIBLE", SQL("TRUE"))


def tombstones_are_not_written(patch: Patch) -> None:
    patch.setattr(ItemStore, "tombstone", lambda self, uris, **_: 0)


def the_withheld_stay_where_they_were(patch: Patch) -> None:
    patch.setattr(EdgeWriter, "move_item", lambda *_: None)


# --- late binding


def the_search_asks_no_source(patch: Patch) -> None:
    patch.setattr(filters, "_unverified", lambda *_: [])
    patch.setattr(Trim, "asks_source", lambda *_: False)


def the_record_asks_no_source(patch: Patch) -> None:
    original = graph.visible.seen_by
    for module in checks.STATEMENT_MODULES:
        patch.setattr(module, "seen_by", lambda trim, **given: {**original(trim, **given), "late": False})


def a_word_holds_for_everybody(patch: Patch) -> None:
    original = core.access.issue_trim

    def issued(principals: Any, **given: Any) -> Trim:
        verified = given.pop("verified", None)
        for_them = None
        if verified is not None:
            for_them = core.access.issue_verified(principals, verified.uris, asked=verified.asked)
        return original(principals, verified=for_them, **given)

    patch.setattr(graph.scopes, "issue_trim", issued)


# --- who asks


def nobody_counts_questions(patch: Patch) -> None:
    patch.setattr(AskerLimiter, "take", lambda *_: None)


def a_program_needs_no_policy(patch: Patch) -> None:
    """Every program passes for one that has a policy of everything."""
    original = core.principals.issue_asker

    def issued(**given: Any) -> Any:
        return original(**{**given, "spaces": None})

    patch.setattr(query.identity, "issue_asker", issued)


def an_empty_principal_set_is_accepted(patch: Patch) -> None:
    patch.setattr(PrincipalSet, "__post_init__", lambda self, seal: None)


def seals_are_not_looked_at(patch: Patch) -> None:
    patch.setattr(core.principals.PrincipalSet, "__post_init__", lambda self, seal: None)
    patch.setattr(Trim, "__post_init__", lambda self, seal: None)


def tokens_are(**unchecked: bool) -> Callable[[Patch], None]:
    """Tokens that are read without one of the checks of the library."""

    def broken(patch: Patch) -> None:
        original = jwt.decode

        def lenient(token: Any, key: Any = "", *given: Any, **named: Any) -> Any:
            named["options"] = {**named.get("options", {}), **unchecked}
            if not unchecked.get("verify_aud", True):
                named.pop("audience", None)
            return original(token, key, *given, **named)

        patch.setattr(jwt, "decode", lenient)

    return broken


def accounts_are_never_disabled(patch: Patch) -> None:
    original = DirectoryStore.account

    def enabled(self: DirectoryStore, principal: Any) -> Any:
        found = original(self, principal)
        return replace(found, enabled=True) if found is not None else None

    patch.setattr(DirectoryStore, "account", enabled)


def reading_is_administration(patch: Patch) -> None:
    patch.setattr(query.service, "ADMIN_SCOPE", "context.read")


# --- the record of access, and the quoting


def the_journal_is_not_kept(patch: Patch) -> None:
    patch.setattr(AccessJournal, "note", lambda *_: None)


def nothing_is_audited(patch: Patch) -> None:
    patch.setattr(AuditLog, "append", lambda *_: None)


def the_fence_is_always_the_same(patch: Patch) -> None:
    patch.setattr(core.render, "new_fence", lambda: "f" * 30)


MUTANTS = (
    Mutant(
        "principal sets kept without asker",
        principal_sets_are_kept_without_their_asker,
        checks.assert_askers_in_turn_are_told_their_own,
    ),
    Mutant(
        "policies are ignored", policies_are_ignored, checks.assert_a_program_sees_what_its_policy_and_its_grants_open
    ),
    Mutant(
        "a program is a person",
        a_program_needs_no_policy,
        checks.assert_a_program_sees_what_its_policy_and_its_grants_open,
    ),
    Mutant("the search asks no source", the_search_asks_no_source, checks.assert_unconfirmed_items_stay_out),
    Mutant("the record asks no source", the_record_asks_no_source, checks.assert_unconfirmed_items_stay_out),
    Mutant("a word holds for everybody", a_word_holds_for_everybody, checks.assert_unconfirmed_items_stay_out),
    Mutant("nobody counts questions", nobody_counts_questions, checks.assert_too_many_questions_are_refused),
    Mutant("deny is ignored", deny_is_ignored, checks.assert_answers_are_what_may_be_read),
    Mutant("deny is ignored, by rule", deny_is_ignored, checks.assert_rules_are_read_as_written),
    Mutant("layers are reversed", layers_are_reversed, checks.assert_rules_are_read_as_written),
    Mutant("allow beats deny", allow_beats_deny, checks.assert_rules_are_read_as_written),
    Mutant("whom nobody names passes", nobody_named_may_pass, checks.assert_rules_are_read_as_written),
    Mutant("one gate is enough", one_gate_is_enough, checks.assert_answers_are_what_may_be_read),
    Mutant("no gates let everybody in", no_gates_let_everybody_in, checks.assert_rules_are_read_as_written),
    Mutant("bars are ignored", bars_are_ignored, checks.assert_answers_are_what_may_be_read),
    Mutant(
        "trims kept without asker", trims_are_kept_without_their_asker, checks.assert_askers_in_turn_are_told_their_own
    ),
    Mutant(
        "the moment never passes", the_moment_never_passes, checks.assert_a_revocation_is_obeyed_by_the_next_question
    ),
    Mutant("the epoch stands still", the_epoch_stands_still, checks.assert_a_revocation_is_obeyed_by_the_next_question),
    Mutant(
        "memberships are kept for good",
        the_epoch_stands_still,
        checks.assert_a_lost_membership_is_obeyed_by_the_next_question,
    ),
    Mutant("permissions never grow old", permissions_never_grow_old, checks.assert_old_permissions_are_shut),
    Mutant("the filter is dropped", the_filter_names_everybody, checks.assert_a_search_finds_exactly_what_may_be_read),
    Mutant(
        "the filter lacks the asker", the_filter_lacks_the_asker, checks.assert_a_search_finds_exactly_what_may_be_read
    ),
    Mutant(
        "blocked scopes are ignored", blocked_scopes_are_ignored, checks.assert_a_search_finds_exactly_what_may_be_read
    ),
    Mutant(
        "document frequencies of everything",
        document_frequencies_are_of_everything,
        checks.assert_nothing_depends_on_hidden_items,
    ),
    Mutant(
        "an empty set makes an open filter", an_empty_set_makes_an_open_filter, checks.assert_an_empty_set_finds_nothing
    ),
    Mutant(
        "who sees nothing is searched for",
        whoever_sees_nothing_is_searched_for,
        checks.assert_an_empty_set_finds_nothing,
    ),
    Mutant("the second check is skipped", the_second_check_is_skipped, checks.assert_the_record_decides),
    Mutant(
        "the second check is half", the_second_check_forgets_the_scope_and_the_text, checks.assert_the_record_decides
    ),
    Mutant("names are looked up everywhere", names_are_looked_up_everywhere, checks.assert_find_names_nothing_hidden),
    Mutant(
        "tombstones are not written", tombstones_are_not_written, checks.assert_a_deletion_is_obeyed_before_the_index_is
    ),
    Mutant("the withheld stay", the_withheld_stay_where_they_were, checks.assert_what_is_withheld_is_out_of_search),
    Mutant("an empty principal set", an_empty_principal_set_is_accepted, checks.assert_an_empty_set_finds_nothing),
    Mutant("seals are not looked at", seals_are_not_looked_at, checks.assert_proofs_cannot_be_forged),
    Mutant("audience unchecked", tokens_are(verify_aud=False), checks.assert_bad_tokens_are_refused),
    Mutant("signature unchecked", tokens_are(verify_signature=False), checks.assert_bad_tokens_are_refused),
    Mutant("expiry unchecked", tokens_are(verify_exp=False), checks.assert_bad_tokens_are_refused),
    Mutant("who left may ask", accounts_are_never_disabled, checks.assert_who_left_is_refused),
    Mutant("reading is administration", reading_is_administration, checks.assert_scopes_of_tokens_are_enforced),
    Mutant("the journal is not kept", the_journal_is_not_kept, checks.assert_each_answer_is_recorded),
    Mutant("nothing is audited", nothing_is_audited, checks.assert_each_answer_is_recorded),
    Mutant("the fence is always the same", the_fence_is_always_the_same, checks.assert_quotes_are_fenced_anew),
)


@pytest.mark.invariant("INV-1", "INV-3", "INV-5")
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: m.name)
def test_a_broken_guard_is_noticed(mutant: Mutant, at_the_border: Border, monkeypatch: Patch) -> None:
    with fresh_caches(at_the_border):
        mutant.broken(monkeypatch)
        with pytest.raises((AssertionError, ContextEngineError, pytest.fail.Exception)):
            mutant.killed_by(at_the_border)
        monkeypatch.undo()


def conditions() -> Iterator[tuple[str, int]]:
    """Every condition of every trimmed statement."""
    for name, statement in checks.trimmed_statements():
        yield from ((name, n) for n in range(len(_places(statement))))


@pytest.mark.invariant("INV-3", "INV-8")
@pytest.mark.parametrize(("name", "place"), list(conditions()))
def test_a_statement_without_its_condition_is_noticed(
    name: str, place: int, at_the_border: Border, monkeypatch: Patch
) -> None:
    _drop_condition(monkeypatch, name, place)
    statement = dict(checks.trimmed_statements())[name]
    with pytest.raises(AssertionError):
        checks.assert_a_statement_names_nothing_hidden(at_the_border, name, statement)


def test_every_check_kills_something() -> None:
    deciding = {mutant.killed_by for mutant in MUTANTS} | {checks.assert_statements_name_nothing_hidden}
    named = {check for name, check in vars(checks).items() if name.startswith("assert_")}
    assert named - deciding == {checks.assert_a_statement_names_nothing_hidden}


@pytest.fixture(autouse=True)
def _whole_again(at_the_border: Border) -> Iterator[None]:
    """What a mutant left in caches or stores is gone before the next."""
    yield
    with fresh_caches(at_the_border):
        pass


def fresh_caches(at: Border) -> Any:
    return checks.epoch_moved(at)
