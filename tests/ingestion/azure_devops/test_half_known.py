"""What is only half known of groups and permissions never lets anybody in: it shuts, is counted, and is told."""

from __future__ import annotations

from typing import Any

import pytest

from core import principals
from core.directory import Container
from ingestion.azure_devops.acls import project_token
from ingestion.azure_devops.identities import subject_of
from ingestion.connector import AccessSnapshot
from tests.ingestion.azure_devops.canned import GIT, OF_PROJECT, PROJECT, acl, listed, organization
from tests.ingestion.azure_devops.test_odd_answers import (
    BASIC,
    GROUP,
    GROUP_SID,
    IRIS,
    TEO,
    claims,
    open_table,
    repo_scope,
    user,
)

GROUP_PRINCIPAL = principals.ado(subject_of(GROUP_SID))


def members(*descriptors: str) -> dict[str, Any]:
    """The direct members of a group, as Graph lists them."""
    return listed(*({"containerDescriptor": "x", "memberDescriptor": d} for d in descriptors))


def listed_group() -> dict[str, Any]:
    """The group as the organization lists it."""
    return listed({"descriptor": subject_of(GROUP_SID), "principalName": "[Fjordline]\\Blocked", "origin": "vsts"})


def group_of(snapshot: AccessSnapshot) -> Container:
    """The group in a reading."""
    return next(c for c in snapshot.containers if c.principal == GROUP_PRINCIPAL)


@pytest.mark.parametrize("stranger", ["aad.c3RyYW5nZXI", "bnd.aW52aXRlZA", "ungrp.eA", "newkind.eA"])
def test_a_member_who_could_be_anybody_makes_the_group_half_known(stranger: str) -> None:
    known = {"descriptor": "aad.aXJpcw", "origin": "aad", "originId": IRIS}
    table = {
        r"/_apis/graph/groups": listed_group(),
        r"/_apis/graph/users": listed(known),
        **open_table({claims(IRIS): (2, 0), GROUP: (0, 2)}),
    }
    table[r"/_apis/graph/memberships/.*"] = members("aad.aXJpcw", stranger)
    with organization(table) as connector:
        snapshot = connector.access()
    group = group_of(snapshot)
    assert group.members == {user(IRIS)}
    assert group.partial
    assert snapshot.unknown_principals[f"member {stranger.partition('.')[0]}"] == 1
    # One stranger in one group shuts what denies the group; it does not make all permissions of the source stale.
    assert snapshot.complete


@pytest.mark.parametrize("service", ["svc.YnVpbGQ", "s2s.eA", "acs.eA"])
def test_services_of_azure_devops_itself_never_ask_so_their_membership_leaves_nothing_open(service: str) -> None:
    table = {r"/_apis/graph/groups": listed_group(), **open_table({GROUP: (0, 2)})}
    table[r"/_apis/graph/memberships/.*"] = members(service)
    with organization(table) as connector:
        group = group_of(connector.access())
    assert group.members == frozenset()
    assert not group.partial


def test_a_group_that_is_deleted_has_no_members_and_one_that_is_just_not_shown_is_half_known() -> None:
    table = open_table({claims(IRIS): (2, 0), GROUP: (0, 2)})
    table[r"/_apis/graph/memberships/.*"] = (404, {}, {"message": "not found"})
    for state, half in (((200, {}, {"active": False}), False), ((404, {}, {"message": "not found"}), True)):
        with organization({**table, r"/_apis/graph/membershipstates/.*": state}) as connector:
            snapshot = connector.access()
        group = group_of(snapshot)
        assert group.members == frozenset()
        assert group.partial is half
        assert snapshot.complete


def test_two_lists_on_one_token_are_one_list_in_which_deny_and_cut_are_kept() -> None:
    table = open_table({})
    for order in (1, -1):
        rows = [
            acl(f"repoV2/{PROJECT}/R1", {claims(IRIS): (0, 2)}, inherit=False),
            acl(f"repoV2/{PROJECT.upper()}/r1/", {claims(IRIS): (2, 0), claims(TEO): (2, 0)}),
        ][::order]
        table[rf"/_apis/accesscontrollists/{GIT}"] = listed(*rows)
        with organization(table, project_acl_reaches_objects=True) as connector:
            rule = repo_scope(connector.access().scopes).acl
        assert not rule.permits(frozenset({user(IRIS), BASIC}))
        assert rule.permits(frozenset({user(TEO), BASIC}))
        assert len(rule.gates[1].layers) == 1


def test_a_list_without_entries_or_with_null_for_them_names_nobody() -> None:
    """C022: a null where a list should be is an empty list, and the run goes on."""
    table = open_table({})
    empty = {"token": f"repoV2/{PROJECT}/R1", "inheritPermissions": True, "acesDictionary": None}
    hole = acl(project_token(PROJECT), {claims(IRIS): (1, 0)})
    hole["acesDictionary"][claims(TEO)] = None
    table[rf"/_apis/accesscontrollists/{GIT}"] = listed(empty)
    table[rf"/_apis/accesscontrollists/{OF_PROJECT}"] = listed(hole)
    table[r"/_apis/graph/memberships/.*"] = {"count": 0, "value": None}
    with organization(table, project_acl_reaches_objects=True) as connector:
        snapshot = connector.access()
    assert snapshot.complete, snapshot.notes
    rule = repo_scope(snapshot.scopes).acl
    assert rule.permits(frozenset({user(IRIS), BASIC}))
    assert not rule.permits(frozenset({user(TEO), BASIC}))


def test_a_deny_above_holds_below_only_where_the_administrator_says_so() -> None:
    table = open_table({claims(IRIS): (2, 0), claims(TEO): (2, 0)})
    above = acl(f"repoV2/{PROJECT}", {claims(IRIS): (0, 2)})
    table[rf"/_apis/accesscontrollists/{GIT}"] = listed(
        above, acl(f"repoV2/{PROJECT}/R1", {claims(IRIS): (2, 0), claims(TEO): (2, 0)})
    )
    readers = {}
    for reaches in (False, True):
        with organization(table, deny_reaches_down=reaches) as connector:
            rule = repo_scope(connector.access().scopes).acl
        readers[reaches] = [who for who in (IRIS, TEO) if rule.permits(frozenset({user(who), BASIC}))]
    assert readers == {False: [IRIS, TEO], True: [TEO]}


def test_a_deny_above_of_whom_nobody_knows_shuts_the_nodes_below_where_denies_reach_down() -> None:
    table = open_table({})
    above = acl(f"repoV2/{PROJECT}", {"Some.New.Identity;1": (0, 2)})
    table[rf"/_apis/accesscontrollists/{GIT}"] = listed(above, acl(f"repoV2/{PROJECT}/R1", {claims(IRIS): (2, 0)}))
    for reaches in (False, True):
        with organization(table, deny_reaches_down=reaches) as connector:
            rule = repo_scope(connector.access().scopes).acl
        assert rule.permits(frozenset({user(IRIS), BASIC})) is not reaches


def test_a_deny_on_a_branch_is_counted_since_a_repo_is_one_scope() -> None:
    table = open_table({})
    branch = f"repoV2/{PROJECT}/R1/refs/heads/6d00610069006e00"
    table[rf"/_apis/accesscontrollists/{GIT}"] = listed(
        acl(f"repoV2/{PROJECT}/R1", {claims(IRIS): (2, 0)}), acl(branch, {claims(IRIS): (0, 2), claims(TEO): (2, 0)})
    )
    with organization(table) as connector:
        snapshot = connector.access()
    assert snapshot.unknown_principals == {"deny on a branch": 1}
    assert repo_scope(snapshot.scopes).acl.permits(frozenset({user(IRIS), BASIC}))
