"""The types make the leak impossible to write by accident: each proof value is issued in one module only."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path

import pytest

from core import access, principals
from core.errors import InvariantError
from core.principals import PrincipalSet, VerifiedAsker

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("core", "graph", "ingestion", "query", "context_engine")
ISSUERS = {
    "issue_asker": "query/identity.py",
    "issue_principal_set": "query/principals.py",
    "issue_trim": "graph/scopes.py",
    "issue_verified": "query/late_binding.py",
    # A person's token: no proof, but for one place alone.
    "reveal": "context_engine/exchange.py",
}


def calls() -> list[tuple[str, str]]:
    """Every mention of an issuing function outside its definition, with the file that has it."""
    found = []
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                name = getattr(node, "id", None) or getattr(node, "attr", None)
                if isinstance(node, ast.alias):
                    name = node.name
                if name in ISSUERS:
                    found.append((name, str(path.relative_to(ROOT))))
    return found


@pytest.mark.invariant("INV-3")
def test_each_proof_is_issued_by_its_one_module() -> None:
    seen = calls()
    assert {name for name, _ in seen} == set(ISSUERS)
    for name, path in seen:
        assert path == ISSUERS[name], f"{path} issues {name}"


@pytest.mark.invariant("INV-3")
def test_proofs_cannot_be_made_by_their_constructors() -> None:
    person = principals.user("t", "p")
    with pytest.raises(InvariantError):
        VerifiedAsker(
            principal=person,
            tenant="t",
            agent=None,
            scopes=frozenset(),
            application=False,
            spaces=None,
            seal=object(),
        )
    asker = principals.issue_asker(principal=person, tenant="t", agent=None, scopes=frozenset())
    with pytest.raises(InvariantError):
        PrincipalSet(asker=asker, principals=frozenset({person}), seal=object())
    proven = principals.issue_principal_set(asker, frozenset({person}))
    with pytest.raises(InvariantError):
        access.Trim(principals=proven, matching=(), blocked=(), readable=frozenset(), epoch=0, seal=object())


@pytest.mark.invariant("INV-3")
def test_no_proof_is_made_out_of_another_and_none_gives_its_seal_away() -> None:
    person = principals.user("t", "p")
    asker = principals.issue_asker(principal=person, tenant="t", agent=None, scopes=frozenset())
    mine = principals.issue_principal_set(asker, frozenset({person}))
    trim = access.issue_trim(mine, matching=[], blocked=[], readable=[], epoch=1)
    word = access.issue_verified(mine, [], asked=0)
    others: tuple[tuple[object, dict[str, object]], ...] = (
        (asker, {"principal": principals.user("t", "q")}),
        (mine, {"principals": frozenset({person, principals.group("t", "g")})}),
        (trim, {"readable": frozenset({access.ScopeId("s")})}),
        (word, {"uris": frozenset({"ctx://x"}), "asked": 1}),
    )
    for proof, change in others:
        with pytest.raises(ValueError, match="seal"):
            replace(proof, **change)  # type: ignore[type-var]
        assert not hasattr(proof, "seal")


@pytest.mark.invariant("INV-3")
def test_a_principal_set_always_holds_its_asker() -> None:
    person = principals.user("t", "p")
    asker = principals.issue_asker(principal=person, tenant="t", agent=None, scopes=frozenset())
    with pytest.raises(InvariantError):
        principals.issue_principal_set(asker, frozenset())


@pytest.mark.invariant("INV-3")
def test_no_code_names_a_bypass() -> None:
    words = ("bypass", "skip_acl", "allow_all", "is_admin", "superuser=True", "ignore_permissions")
    for package in ("core", "graph", "ingestion", "query"):
        for path in (ROOT / package).rglob("*.py"):
            text = path.read_text("utf-8").lower()
            for word in words:
                assert word not in text, f"{path} says {word}"
