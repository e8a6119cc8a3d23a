"""Why somebody may or may not read an item: every gate with the entry that decided, and whatever else keeps it shut.

Nothing here decides. The verdict on a scope is `ScopeStore.standing`, which judges as the store does for a search.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from context_engine.explain_targets import Unknown, find_item, find_person
from core import principals as p
from core.access import Gate, GateVerdict, Outcome
from core.clock import Clock
from core.directory import Account, PersonKind
from core.errors import UnresolvedIdentityError
from core.principals import Principal
from graph.db import Database
from graph.directory import DirectoryStore
from graph.item_lookup import ItemLookup, KnownItem
from graph.membership_path import MembershipPaths
from graph.runs import RunStore
from graph.scopes import ScopeStore
from graph.standing import Bar, Standing


@dataclass(frozen=True, slots=True)
class Step:
    """Somebody or something on a path of memberships."""

    principal: Principal
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """An entry that decided: whom it names, and how the person came to be that. `path` begins with the person."""

    effect: str
    principal: Principal
    name: str
    path: tuple[Step, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GateTold:
    """One gate: how it came out, at which node, by which entries; where nobody was named, whom it would let in.

    `looked_at` are the nodes up to the one that decided, nearest first: all of them where none did.
    """

    gate: str
    outcome: Outcome
    node: str | None
    looked_at: tuple[str, ...]
    entries: tuple[Entry, ...]
    would_admit: tuple[Step, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Obstacle:
    """Something besides the rule that keeps the item from this person, and what to do about it."""

    kind: str
    says: str
    do: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The whole answer. `notes` change nothing of the verdict."""

    may_read: bool
    person: Step
    account: Account | None
    item: KnownItem | Unknown
    standing: Standing | None
    gates: tuple[GateTold, ...]
    obstacles: tuple[Obstacle, ...]
    notes: tuple[str, ...]


class Explainer:
    """Explains access from the record alone; asks no source."""

    def __init__(
        self,
        db: Database,
        *,
        scopes: ScopeStore,
        directory: DirectoryStore,
        clock: Clock,
        keys: Mapping[str, Principal] | None = None,
        free_labels: tuple[str, ...] | None = None,
        policies: Mapping[Principal, frozenset[str]] | None = None,
    ) -> None:
        self._free_labels, self._policies = free_labels, policies or {}
        self._db, self._scopes, self._directory, self._clock = db, scopes, directory, clock
        self._paths = MembershipPaths(db)
        self._keys = keys

    def explain(self, item_text: str, person_text: str) -> Explanation:
        """Explain one item to one person, from one moment of the record.

        Raises InputError where either is not found, or not the only one.
        """
        with self._db.reading():
            item = find_item(ItemLookup(self._db), item_text)
            return self._explain(item, find_person(self._db, person_text, keys=self._keys))

    def _explain(self, item: KnownItem | Unknown, who: Principal) -> Explanation:
        account = self._directory.account(who)
        spaces = self._policies.get(who)
        obstacles = [*_of_account(who, account, has_policy=spaces is not None)]
        try:
            mine = self._directory.closure(who) | {who}
        except UnresolvedIdentityError as e:
            # Without the closure nobody is answered at all; what is said of the gates is about the person alone.
            mine = frozenset({who})
            do = "run `sync`, and see what `doctor` says of it"
            obstacles.append(Obstacle(kind="memberships_unknown", says=f"{e.message} ({e.where})", do=do))
        obstacles += self._of_item(item)
        standing = self._scopes.standing(item.scope, mine, spaces=spaces) if isinstance(item, KnownItem) else None
        if isinstance(item, KnownItem) and standing is None:
            obstacles.append(
                Obstacle(kind="scope_unknown", says=f"its scope {item.scope} is not known", do="run `sync`")
            )
        gates: tuple[GateTold, ...] = ()
        if standing is not None:
            obstacles += self._of_scope(standing)
            gates = self._gates(who, account, standing)
        opens = standing is not None and standing.opens
        return Explanation(
            may_read=opens and not obstacles,
            person=Step(who, account.name if account else who),
            account=account,
            item=item,
            standing=standing,
            gates=gates,
            obstacles=tuple(obstacles),
            notes=(*_notes(standing), *self._late(item)),
        )

    def _late(self, item: KnownItem | Unknown) -> Iterable[str]:
        """What late binding will still ask; `free_labels` are those that need no word of a source, None: all."""
        if self._free_labels is None or isinstance(item, Unknown) or item.label in (None, *self._free_labels):
            return
        yield f"it is labelled {item.label}: each question shows it only where its source confirms it at that moment"

    def _gates(self, who: Principal, account: Account | None, standing: Standing) -> tuple[GateTold, ...]:
        acl = standing.scope.acl
        named = {x for v in standing.verdicts for x in v.named}
        paths = self._paths.from_(who, named)
        told = {x for path in paths.values() for x in path} | named | acl.mentioned()
        names = self._paths.names(told)
        if account is not None:
            names[who] = account.name

        def step(principal: Principal) -> Step:
            return Step(principal, names.get(principal) or plain_name(principal))

        def gate(verdict: GateVerdict, rule: Gate) -> GateTold:
            effect = "deny" if verdict.outcome is Outcome.DENIED else "allow"
            entries = [
                Entry(
                    effect=effect,
                    principal=x,
                    name=step(x).name,
                    path=tuple(step(y) for y in paths.get(x, ())),
                )
                for x in verdict.named
            ]
            entries.sort(key=lambda e: (len(e.path), e.principal))
            admits = {x for layer in rule.layers for x in layer.allow} if not verdict.named else set()
            nodes = [layer.node for layer in rule.layers]
            if verdict.node in nodes:
                nodes = nodes[: nodes.index(verdict.node) + 1]
            return GateTold(
                gate=verdict.gate,
                outcome=verdict.outcome,
                node=verdict.node,
                looked_at=tuple(nodes),
                entries=tuple(entries),
                would_admit=tuple(sorted((step(x) for x in admits), key=lambda s: (s.name, s.principal))),
            )

        return tuple(gate(v, g) for v, g in zip(standing.verdicts, acl.gates, strict=True))

    def _of_item(self, item: KnownItem | Unknown) -> Iterable[Obstacle]:
        failed = {f.uri: f for f in RunStore(self._db).failures(None)}.get(item.uri)
        told = f"; reading it failed ({failed.attempts} times): {failed.reason}" if failed else ""
        if isinstance(item, Unknown):
            says = f"the record has no such item{told}"
            yield Obstacle(kind="item_unknown", says=says, do="it is not synced yet, was left out, or is no item")
        elif item.lifecycle == "deleted":
            yield Obstacle(kind="item_deleted", says=f"it is deleted: {item.reason or 'no reason kept'}")
        elif item.lifecycle == "hidden":
            says = f"it is withheld from all: {item.reason or 'its source no longer shows it'}{told}"
            yield Obstacle(kind="item_hidden", says=says, do="it comes back when its source shows it again")
        elif not item.shown:
            yield Obstacle(kind="item_not_indexed", says=f"it is not in the index yet{told}", do="run `sync`")

    def _of_scope(self, standing: Standing) -> Iterable[Obstacle]:
        if not standing.scope.acl.gates:
            yield Obstacle(
                kind="no_rule",
                says="its scope has no rule: switched off or gone at its source, or its permissions are unreadable",
                do="see what `doctor` says of the last reading of permissions",
            )
        if Bar.STALE in standing.bars:
            yield Obstacle(kind=Bar.STALE.value, says=self._age(standing), do="run `serve` or `sync`")
        if Bar.STALE_DIRECTORY in standing.bars:
            yield Obstacle(
                kind=Bar.STALE_DIRECTORY.value,
                says="the tenant's directory was read longer ago than `revocation_sla`: memberships count no more",
                do="run `serve` or `sync`, and see what `doctor` says of it",
            )
        if Bar.UNREAD_DENY in standing.bars:
            unread = self._named(standing.unread) or "one that no directory has listed yet"
            yield Obstacle(
                kind=Bar.UNREAD_DENY.value,
                says=f"its rule denies a group whose members are not fully known: {unread}",
                do="give the connector the right to read its members",
            )
        if Bar.POLICY in standing.bars:
            yield Obstacle(
                kind=Bar.POLICY.value,
                says="it lies in none of the spaces that the application's policy lists",
                do="list one of its spaces in `applications`, if the application is to be told of it",
            )
        if Bar.RULE in standing.bars and standing.lapsed:
            yield Obstacle(
                kind="memberships_lapsed",
                says="these let nobody in, since members could not be read for longer than `revocation_sla`: "
                + self._named(standing.lapsed),
                do="give the connector the right to read their members",
            )

    def _named(self, principals: Iterable[Principal]) -> str:
        names = self._paths.names(tuple(principals))
        return ", ".join(names.get(x) or plain_name(x) for x in principals)

    def _age(self, standing: Standing) -> str:
        if standing.read_at is None:
            return f"the permissions of {standing.origin} were never read to their end"
        age = (self._clock.now() - standing.read_at).total_seconds()
        return f"the permissions of {standing.origin} were read {age:.0f} s ago, which is beyond `revocation_sla`"


def plain_name(principal: Principal) -> str:
    """What to call a principal that has no name of its own in the directory."""
    match p.kind_of(principal):
        case "everyone":
            return "everyone in the tenant (guests not)"
        case "anyone":
            return "anyone who signs in to the tenant (guests too)"
        case "licence":
            organization, _, level = principal.partition(":")[2].partition("/")
            return f"{level} access to {organization}"
        case _:
            return principal


def _of_account(who: Principal, account: Account | None, *, has_policy: bool) -> Iterable[Obstacle]:
    if account is None:
        yield Obstacle(kind="account_unknown", says=f"the directory has no account {who}: it left, or never was")
    elif not account.enabled:
        yield Obstacle(kind="account_disabled", says="the account is disabled")
    elif account.kind is PersonKind.SERVICE and not has_policy:
        yield Obstacle(
            kind="service_account",
            says="an application on its own has no person behind it, and these settings list no spaces for it",
            do="see `applications`; where the API has settings of its own, ask with those",
        )


def _notes(standing: Standing | None) -> tuple[str, ...]:
    if standing is None or standing.indexed:
        return ()
    return ("the rule changed and the index is being brought up to it: a search may not find the item yet",)
