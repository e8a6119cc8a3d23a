"""Answers of real organizations that a sandbox does not give: unknown kinds, old spellings, other bits, short pages."""

from __future__ import annotations

import re
from typing import Any

import pytest

from core import principals
from core.access import NOBODY, Scope
from core.errors import SourceError
from core.principals import Licence, Principal
from ingestion.azure_devops.acls import area_token, project_token
from ingestion.azure_devops.identities import OBJECT_ID, subject_of
from tests.ingestion.azure_devops.canned import (
    AREA,
    GIT,
    OF_PROJECT,
    PROJECT,
    ROOT,
    TENANT,
    acl,
    base_table,
    listed,
    namespaces,
    organization,
)
from tests.ingestion.azure_devops.support import reader_of

IRIS, TEO = ("10000000-0000-4000-8000-00000000000a", "10000000-0000-4000-8000-00000000000b")
GROUP_SID = "S-1-9-1551374245-1-2-3-4-0-0-0-0-3"
ENTRA_SID = "S-1-9-1551374245-1204400969-2402986413-2179408616-3-513550911-2103140430-2316419327-3994170454"
ENTRA_OID = "3f2a9c1e-5b7d-4e60-8a11-c0ffee123456"
GROUP = f"Microsoft.TeamFoundation.Identity;{GROUP_SID}"
ENTRA_GROUP = f"Microsoft.TeamFoundation.Identity;{ENTRA_SID}"
BASIC = principals.licence("novaruud", Licence.BASIC)


def user(oid: str) -> Principal:
    return principals.user(TENANT, oid)


def claims(oid: str) -> str:
    return f"Microsoft.IdentityModel.Claims.ClaimsIdentity;{TENANT}\\{oid}@novaruud.example"


def identity(descriptor: str, oid: str) -> dict[str, Any]:
    return {
        "id": oid,
        "descriptor": descriptor,
        "subjectDescriptor": f"aad.{oid}",
        "properties": {OBJECT_ID: {"$type": "System.String", "$value": oid}},
    }


def open_table(repo_entries: dict[str, tuple[int, int]], **changes: Any) -> dict[str, Any]:
    """A table in which Iris and Teo pass the project's gate and the repo has these entries."""
    table = base_table()
    table[rf"/_apis/accesscontrollists/{OF_PROJECT}"] = listed(
        acl(project_token(PROJECT.upper()), {claims(IRIS): (1, 0), claims(TEO): (1, 0), GROUP: (1, 0)})
    )
    table[rf"/_apis/accesscontrollists/{GIT}"] = listed(acl(f"repoV2/{PROJECT.upper()}/R1/", repo_entries))
    table[r"/_apis/identities"] = listed(identity(claims(IRIS), IRIS), None, identity(claims(TEO), TEO))
    return {**table, **changes}


def repo_scope(scopes: tuple[Scope, ...]) -> Scope:
    return next(s for s in scopes if s.kind == "repo")


def test_tokens_are_compared_without_case_and_slash() -> None:
    with organization(open_table({claims(IRIS): (2, 0)})) as connector:
        rule = repo_scope(connector.access().scopes).acl
    assert rule.permits(frozenset({user(IRIS), BASIC}))
    assert not rule.permits(frozenset({user(TEO), BASIC}))
    assert not rule.permits(frozenset({user(IRIS)}))


def test_bits_are_those_that_the_organization_declares() -> None:
    table = open_table({claims(IRIS): (2, 0), claims(TEO): (64, 0)})
    table[r"/_apis/securitynamespaces"] = namespaces(git=64)
    with organization(table) as connector:
        rule = repo_scope(connector.access().scopes).acl
    assert rule.permits(frozenset({user(TEO), BASIC}))
    assert not rule.permits(frozenset({user(IRIS), BASIC}))


def test_a_namespace_without_a_read_action_is_an_error_and_not_an_open_door() -> None:
    table = base_table()
    table[r"/_apis/securitynamespaces"] = listed({"namespaceId": GIT, "name": "Git", "actions": []})
    with organization(table) as connector, pytest.raises(SourceError, match="no read permission"):
        connector.access()


def test_deny_beats_allow_on_one_token_whoever_stands_first() -> None:
    for entries in ({claims(IRIS): (2, 0), GROUP: (0, 2)}, {GROUP: (0, 2), claims(IRIS): (2, 0)}):
        with organization(open_table(entries)) as connector:
            rule = repo_scope(connector.access().scopes).acl
        group = principals.ado(subject_of(GROUP_SID))
        assert rule.permits(frozenset({user(IRIS), BASIC}))
        assert not rule.permits(frozenset({user(IRIS), group, BASIC}))


def test_an_unknown_kind_names_nobody_and_is_counted_once() -> None:
    unknown = "Microsoft.TeamFoundation.ServiceIdentity;build:1"
    table = open_table({claims(IRIS): (2, 0), unknown: (2, 0)})
    with organization(table) as connector:
        snapshot = connector.access()
    assert snapshot.unknown_principals == {"Microsoft.TeamFoundation.ServiceIdentity": 1}
    assert repo_scope(snapshot.scopes).acl.gates[1].layers[0].allow == {user(IRIS)}


def test_a_deny_that_names_we_do_not_know_whom_shuts_the_node_and_what_lies_behind_it() -> None:
    unknown = "Microsoft.TeamFoundation.ServiceIdentity;build:1"
    with organization(open_table({claims(IRIS): (2, 0), unknown: (0, 2)})) as connector:
        rule = repo_scope(connector.access().scopes).acl
    assert not rule.permits(frozenset({user(IRIS), BASIC}))


def test_an_identity_that_comes_back_as_a_hole_is_nobody_if_it_is_a_person_and_known_by_its_sid_if_a_group() -> None:
    stranger = claims("10000000-0000-4000-8000-0000000000ff")
    with organization(open_table({stranger: (2, 0), GROUP: (2, 0), ENTRA_GROUP: (2, 0)})) as connector:
        snapshot = connector.access()
    assert repo_scope(snapshot.scopes).acl.gates[1].layers[0].allow == {
        principals.ado(subject_of(GROUP_SID)),
        principals.group(TENANT, ENTRA_OID),
    }
    assert snapshot.unknown_principals == {"Microsoft.IdentityModel.Claims.ClaimsIdentity": 1}


def test_an_entra_group_whose_sid_and_origin_disagree_names_nobody() -> None:
    row = {"descriptor": subject_of(ENTRA_SID), "origin": "aad", "originId": IRIS, "displayName": "Odd"}
    table = open_table({})
    table = {r"/_apis/graph/groups": listed(row), **table}
    with organization(table) as connector:
        snapshot = connector.access()
    assert not snapshot.complete
    assert snapshot.unknown_principals == {"aadgp mismatch": 1}


def test_a_node_that_cuts_its_inheritance_ends_the_chain_even_without_entries() -> None:
    table = base_table()
    child = "bbbbbbbb-0000-4000-8000-000000000002"
    table[r"/[^/]+/_apis/wit/classificationnodes"] = listed(
        {
            "id": 7,
            "identifier": ROOT,
            "name": "Fjordline",
            "structureType": "area",
            "hasChildren": True,
            "children": [
                {"id": 8, "identifier": child, "name": "Payroll", "structureType": "area", "hasChildren": False}
            ],
        }
    )
    table[rf"/_apis/accesscontrollists/{OF_PROJECT}"] = listed(acl(project_token(PROJECT), {claims(IRIS): (1, 0)}))
    table[rf"/_apis/accesscontrollists/{AREA}"] = listed(
        acl(area_token((ROOT,)), {claims(IRIS): (16, 0)}), acl(area_token((ROOT, child)), {}, inherit=False)
    )
    table[r"/_apis/identities"] = listed(identity(claims(IRIS), IRIS))
    with organization(table, project_acl_reaches_objects=True) as connector:
        scopes = {s.name: s.acl for s in connector.access().scopes}
    asker = frozenset({user(IRIS), BASIC})
    assert scopes["Fjordline"].permits(asker)
    assert not scopes["Fjordline\\Payroll"].permits(asker)


def test_a_deep_area_tree_is_asked_for_until_nothing_is_cut_off() -> None:
    def node(depth: int, most: int) -> dict[str, Any]:
        found: dict[str, Any] = {"id": depth, "identifier": f"n{depth}", "name": f"N{depth}", "structureType": "area"}
        found["hasChildren"] = depth < 40
        if depth < min(most, 40):
            found["children"] = [node(depth + 1, most)]
        return found

    table = base_table()
    table[r"/[^/]+/_apis/wit/classificationnodes"] = lambda q: listed(node(0, int(q["$depth"])))
    with organization(table) as connector:
        assert len([s for s in connector.access().scopes if s.kind == "area"]) == 41


def test_only_active_licences_open_anything() -> None:
    def row(oid: str, **level: str) -> dict[str, Any]:
        return {"user": {"origin": "aad", "originId": oid, "descriptor": "aad.x"}, "accessLevel": level}

    oids = [f"20000000-0000-4000-8000-00000000000{n}" for n in range(8)]
    rows = [
        row(oids[0], accountLicenseType="express", status="active"),
        row(oids[1], accountLicenseType="express", status="pending"),
        row(oids[2], accountLicenseType="express", status="disabled"),
        row(oids[3], accountLicenseType="stakeholder", status="active"),
        row(oids[4], accountLicenseType="none", licensingSource="msdn", msdnLicenseType="enterprise", status="active"),
        row(oids[5], accountLicenseType="none", licensingSource="msdn", msdnLicenseType="eligible", status="active"),
        row(oids[6], accountLicenseType="advanced", status="active"),
        row(oids[7], accountLicenseType="somethingNew", status="active"),
    ]

    def page(query: dict[str, Any]) -> dict[str, Any]:
        if query.get("continuationtoken") == "next":
            return {"members": rows[3:], "continuationToken": None}
        return {"members": rows[:3], "continuationToken": "next"}

    table = {r"/_apis/userentitlements": page, **base_table()}
    with organization(table) as connector:
        held = {c.principal: c.members for c in connector.access().containers}
    assert held[BASIC] == {user(oids[0]), user(oids[4]), user(oids[6])}
    assert held[principals.licence("novaruud", Licence.STAKEHOLDER)] == {user(oids[3])}


def test_a_list_whose_token_comes_twice_breaks_off_instead_of_going_on_for_ever() -> None:
    row = {"descriptor": "aad.x", "origin": "aad", "originId": IRIS}
    table = {r"/_apis/graph/users": (200, {"X-MS-ContinuationToken": "again"}, listed(row)), **base_table()}
    with organization(table) as connector, pytest.raises(SourceError, match="does not end"):
        connector.access()


def test_a_project_without_an_acl_lets_nobody_in() -> None:
    with organization(base_table(), project_acl_reaches_objects=True) as connector:
        scopes = connector.access().scopes
    everybody = frozenset({user(IRIS), BASIC, principals.everyone(TENANT), principals.anyone(TENANT)})
    assert scopes
    assert not any(s.acl.permits(everybody) for s in scopes)
    assert all(s.acl != NOBODY for s in scopes)


def test_pages_of_a_batch_may_be_short_or_empty_and_go_on() -> None:
    answers = {
        None: (200, {"x-ms-continuationtoken": "1"}, listed({"id": 1})),
        "1": (200, {"x-ms-continuationtoken": "2"}, listed()),
        "2": (200, {}, listed({"id": 2})),
    }
    table = {r"/pages": lambda q: answers[q["body"].get("continuationToken")]}
    with organization(table) as connector:
        client = connector._org.client
        assert [r["id"] for page in client.pages("pages", body={"top": 100}) for r in page] == [1, 2]


def test_an_empty_answer_is_no_content_and_no_error() -> None:
    with organization({r"/nothing": (204, {}, "")}) as connector:
        assert connector._org.client.get("nothing") is None


def test_more_work_items_than_one_query_may_find_are_listed_window_by_window() -> None:
    ids = [*range(1, 30_001), *range(70_000, 85_000)]

    def wiql(query: dict[str, Any]) -> Any:
        bounds = [int(n) for n in re.findall(r"\[System\.Id\] <?>?=? ?(\d+)", query["body"]["query"])]
        found = [n for n in ids if n > bounds[0] and (len(bounds) == 1 or n <= bounds[1])]
        if len(found) > 20_000:
            return 400, {}, {"message": "VS402337: The number of work items returned exceeds the size limit of 20000."}
        return {"workItems": [{"id": n} for n in found]}

    with organization({r"/[^/]+/_apis/wit/wiql": wiql, **base_table()}) as connector:
        connector.access()
        present = list(reader_of(connector, "work_items").present() or ())
    assert len(present) == len(set(present)) == 45_000


def test_a_refused_query_is_never_taken_for_no_work_items() -> None:
    refused = (400, {}, {"message": "TF51005: The query references a field that does not exist."})
    with organization({r"/[^/]+/_apis/wit/wiql": refused, **base_table()}) as connector:
        connector.access()
        with pytest.raises(SourceError, match="TF51005"):
            list(reader_of(connector, "work_items").present() or ())
