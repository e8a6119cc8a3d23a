"""Who may read what in a company written down as plain data: a naive model that shares nothing with the engine.

A scope's rule is a list of gates, each a list of layers, nearest first: `{"allow": [...], "deny": [...]}`, of names
such as `ben` or `group:staff`. Groups list members by the same names; nesting and cycles are allowed. Every question is
answered on its own, by walking.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from core.access import Gate, Layer, Scope, ScopeAcl, ScopeId
from core.directory import Container
from core.principals import Principal, group
from tests.sandbox.small import TENANT
from tests.support.laboratory import Lab

Rule = list[list[dict[str, list[str]]]]


@dataclass(frozen=True)
class PlainAccess:
    """Rules by scope, members by group, and who has left."""

    rules: Mapping[str, Rule]
    groups: Mapping[str, list[str]]
    left: frozenset[str] = field(default_factory=frozenset)

    def may_read(self, person: str, scope: str) -> bool:
        """Whether a person may read what hangs on a scope; a scope without a rule is nobody's."""
        gates = self.rules.get(scope, [])
        return person not in self.left and bool(gates) and all(self._passes(person, gate) for gate in gates)

    def _passes(self, person: str, gate: list[dict[str, list[str]]]) -> bool:
        for layer in gate:
            if self._named(person, layer.get("deny", [])):
                return False
            if self._named(person, layer.get("allow", [])):
                return True
        return False

    def _named(self, person: str, names: Iterable[str]) -> bool:
        return any(name == person or self._is_in(person, name, frozenset()) for name in names)

    def _is_in(self, person: str, name: str, above: frozenset[str]) -> bool:
        if not name.startswith("group:") or name in above:
            return False
        members = self.groups[name.removeprefix("group:")]
        return any(m == person or self._is_in(person, m, above | {name}) for m in members)

    # --- the same, as the engine's stores are told it

    def scopes(self, lab: Lab) -> list[Scope]:
        """The rules as a source's connector would export them."""
        return [
            Scope(id=ScopeId(name), source="wikis", kind="wiki", name=name, acl=ScopeAcl(_gates(lab, rule)))
            for name, rule in sorted(self.rules.items())
        ]

    def containers(self, lab: Lab) -> list[Container]:
        """The groups as a directory would list them."""
        return [
            Container(
                principal=group(TENANT, name),
                name=name.title(),
                kind="group",
                members=frozenset(principal_of(lab, m) for m in members),
            )
            for name, members in sorted(self.groups.items())
        ]


def principal_of(lab: Lab, name: str) -> Principal:
    """The principal that a plain name stands for."""
    return group(TENANT, name.removeprefix("group:")) if name.startswith("group:") else lab.who(name)


def _gates(lab: Lab, rule: Rule) -> tuple[Gate, ...]:
    def names(layer: dict[str, Any], word: str) -> frozenset[Principal]:
        return frozenset(principal_of(lab, n) for n in layer.get(word, []))

    return tuple(
        Gate(f"gate {g}", tuple(Layer(f"node {n}", names(x, "allow"), names(x, "deny")) for n, x in enumerate(gate)))
        for g, gate in enumerate(rule)
    )
