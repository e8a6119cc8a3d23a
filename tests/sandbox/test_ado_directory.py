"""Identities, groups, memberships and licences, in each of their spellings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from azure.devops.v7_1.graph.models import GraphSubjectLookup, GraphSubjectLookupKey

from fixtures.sandbox.server import SandboxServer
from tests.sandbox.ado import P, Rest, ado_world
from tests.sandbox.small import TENANT

OID = "http://schemas.microsoft.com/identity/claims/objectidentifier"


@pytest.fixture(scope="module")
def graph(clients: Any) -> Any:
    return clients.get_graph_client()


def listed(rest: Rest, kind: str) -> dict[str, Any]:
    """Subjects by display name, read to the end."""
    return {row["displayName"]: row for rows in rest.header_pages(f"/_apis/graph/{kind}") for row in rows}


def test_groups_are_its_own_and_the_directorys_that_it_names(rest: Rest, graph: Any) -> None:
    groups = listed(rest, "groups")
    assert set(groups) == {"Ops", "Staff", "Inner", "Everyone"}
    assert (groups["Ops"]["origin"], groups["Ops"]["descriptor"][:6]) == ("vsts", "vssgp.")
    assert (groups["Staff"]["origin"], groups["Staff"]["descriptor"][:6]) == ("aad", "aadgp.")
    assert groups["Ops"]["principalName"] == "[Small]\\Ops"
    one = graph.get_group(groups["Staff"]["descriptor"])
    assert one.origin_id == groups["Staff"]["originId"]


def test_users_and_service_principals_come_in_pages_that_the_sdk_can_follow(ado: SandboxServer, graph: Any) -> None:
    names: list[str] = []
    token = None
    for _ in range(10):
        page = graph.list_users(continuation_token=token)
        names += [user.display_name for user in page.graph_users]
        token = page.continuation_token
        if token is None:
            break
    assert sorted(names) == ["Ann Arbor", "Ben Baker", "Cat Castle", "Dan Dale", "Eve Eastwood", "Gil Guest"]
    bots = graph.list_service_principals().graph_service_principals
    assert [(bot.display_name, bot.origin_id) for bot in bots] == [("Build Bot", ado.state.oid("bot"))]


def test_a_user_names_the_directorys_object_and_a_guest_is_one(ado: SandboxServer, rest: Rest) -> None:
    users = listed(rest, "users")
    ann, gil = users["Ann Arbor"], users["Gil Guest"]
    assert (ann["origin"], ann["originId"], ann["domain"]) == ("aad", ado.state.oid("ann"), TENANT)
    assert (ann["metaType"], gil["metaType"]) == ("member", "guest")
    assert rest.get(f"/_apis/graph/users/{ann['descriptor']}")["principalName"] == "ann@small.example"
    assert rest.refused("/_apis/graph/users/aad.bm9ib2R5")[0] == 404


def test_a_local_group_lists_its_direct_members_and_a_directory_group_nobody(rest: Rest, graph: Any) -> None:
    groups, users = listed(rest, "groups"), listed(rest, "users")
    down = graph.list_memberships(groups["Ops"]["descriptor"], direction="down", depth=1)
    assert {edge.member_descriptor for edge in down} == {
        groups["Inner"]["descriptor"], users["Cat Castle"]["descriptor"],
    }  # fmt: skip
    assert graph.list_memberships(groups["Staff"]["descriptor"], direction="down") == []
    up = graph.list_memberships(users["Cat Castle"]["descriptor"], direction="up")
    assert [edge.container_descriptor for edge in up] == [groups["Ops"]["descriptor"]]
    assert graph.list_memberships(users["Ann Arbor"]["descriptor"]) == []
    assert rest.refused(f"/_apis/graph/memberships/{groups['Ops']['descriptor']}", depth=2)[0] == 400


def test_one_edge_can_be_asked_about(rest: Rest, graph: Any) -> None:
    groups, users = listed(rest, "groups"), listed(rest, "users")
    cat, ann, ops = users["Cat Castle"]["descriptor"], users["Ann Arbor"]["descriptor"], groups["Ops"]["descriptor"]
    graph.check_membership_existence(cat, ops)
    assert graph.get_membership(cat, ops).container_descriptor == ops
    head = rest.client.head(f"/_apis/graph/memberships/{ann}/{ops}?api-version=7.1-preview.1")
    assert head.status_code == 404
    assert graph.get_membership_state(cat).active is True
    assert graph.get_membership_state(users["Eve Eastwood"]["descriptor"]).active is False


def test_descriptors_and_storage_keys_translate_both_ways(rest: Rest, graph: Any) -> None:
    ann = listed(rest, "users")["Ann Arbor"]
    key = graph.get_storage_key(ann["descriptor"]).value
    assert graph.get_descriptor(key).value == ann["descriptor"]
    project = rest.get("/_apis/projects/P")["id"]
    scope = graph.get_descriptor(project).value
    assert scope.startswith("scp.")
    assert graph.list_groups(scope_descriptor=scope).graph_groups == []
    found = graph.lookup_subjects(GraphSubjectLookup(lookup_keys=[GraphSubjectLookupKey(descriptor=ann["descriptor"])]))
    assert found[ann["descriptor"]].display_name == "Ann Arbor"


def test_identities_are_found_by_every_name_with_holes_for_nobody(ado: SandboxServer, rest: Rest, clients: Any) -> None:
    ims = clients.get_identity_client()
    ann = listed(rest, "users")["Ann Arbor"]
    by_subject = ims.read_identities(subject_descriptors=ann["descriptor"])[0]
    assert by_subject.descriptor == f"Microsoft.IdentityModel.Claims.ClaimsIdentity;{TENANT}\\ann@small.example"
    assert by_subject.properties[OID]["$value"] == ado.state.oid("ann")
    assert ims.read_identities(identity_ids=by_subject.id)[0].subject_descriptor == ann["descriptor"]
    assert ims.read_identities(descriptors=by_subject.descriptor)[0].id == by_subject.id
    assert ims.read_identity(by_subject.id).provider_display_name == "Ann Arbor"
    rows = rest.get("/_apis/identities", subjectDescriptors=f"{ann['descriptor']},aad.bm9ib2R5")["value"]
    assert [row and row["providerDisplayName"] for row in rows] == ["Ann Arbor", None]
    batch = rest.post("/_apis/identitybatch", {"descriptors": [by_subject.descriptor]})["value"]
    assert batch[0]["id"] == by_subject.id


def test_a_group_is_the_same_in_lists_of_access_and_in_the_graph(rest: Rest) -> None:
    import base64

    for name, group in listed(rest, "groups").items():
        part = group["descriptor"].partition(".")[2]
        sid = base64.b64decode(part + "=" * (-len(part) % 4)).decode()
        row = rest.get("/_apis/identities", descriptors=f"Microsoft.TeamFoundation.Identity;{sid}")["value"][0]
        assert (row["subjectDescriptor"], row["isContainer"]) == (group["descriptor"], True), name
        if group["origin"] == "aad":
            assert row["properties"][OID]["$value"] == group["originId"]


def test_members_of_an_identity_stop_at_the_directory(rest: Rest) -> None:
    groups = listed(rest, "groups")

    def members(name: str, kind: str) -> int:
        query = {"subjectDescriptors": groups[name]["descriptor"], "queryMembership": kind}
        return len(rest.get("/_apis/identities", **query)["value"][0]["members"])

    assert (members("Ops", "direct"), members("Ops", "expanded"), members("Staff", "expanded")) == (2, 2, 0)


def test_entitlements_come_in_pages_with_their_token_in_the_body(rest: Rest) -> None:
    token, rows, pages = None, [], 0
    while True:
        body = rest.get("/_apis/userentitlements", **({"continuationToken": token} if token else {}))
        rows += body["members"]
        pages += 1
        token = body["continuationToken"]
        if token is None:
            break
    assert pages == 2
    levels = {row["user"]["displayName"]: row["accessLevel"] for row in rows}
    assert {name: level["accountLicenseType"] for name, level in levels.items()} == {
        "Ann Arbor": "express", "Ben Baker": "express", "Cat Castle": "stakeholder", "Dan Dale": "none",
        "Eve Eastwood": "express", "Gil Guest": "express",
    }  # fmt: skip
    assert (levels["Ann Arbor"]["status"], levels["Eve Eastwood"]["status"]) == ("active", "disabled")
    assert levels["Cat Castle"]["licensingSource"] == "account"


def test_the_sdk_reads_entitlements_of_people_and_services(rest: Rest, clients: Any) -> None:
    entitlements = clients.get_member_entitlement_management_client()
    found = entitlements.search_user_entitlements()
    assert len(found.members) == 5
    one = entitlements.get_user_entitlement(found.members[0].id)
    assert one.id == found.members[0].id
    bots = rest.get("/_apis/serviceprincipalentitlements")["members"]
    assert [bot["servicePrincipal"]["displayName"] for bot in bots] == ["Build Bot"]
    assert entitlements.get_service_principal_entitlement(bots[0]["id"]).access_level.account_license_type == "express"
    assert entitlements.search_member_entitlements().items


def test_a_changed_licence_and_membership_are_served_at_once(tmp_path: Path) -> None:
    events = [
        {"id": "licence", "after": "1m", "set_access_level": {"who": "ann", "access_level": "stakeholder"}},
        {"id": "joined", "after": "2m", "add_member": {"group": "ops", "who": "gil"}},
    ]
    with SandboxServer(ado_world({"P": P, "Salt": {}}, events=events), tmp_path, remember=False) as server:
        rest = Rest(server)
        ops, users = listed(rest, "groups")["Ops"]["descriptor"], listed(rest, "users")
        assert len(rest.get(f"/_apis/graph/memberships/{ops}", direction="down")["value"]) == 2
        server.apply("joined")
        edges = rest.get(f"/_apis/graph/memberships/{ops}", direction="down")["value"]
        assert users["Gil Guest"]["descriptor"] in {edge["memberDescriptor"] for edge in edges}
        key = rest.get(f"/_apis/graph/storagekeys/{users['Ann Arbor']['descriptor']}")["value"]
        level = rest.get(f"/_apis/userentitlements/{key}")["accessLevel"]
        assert level["accountLicenseType"] == "stakeholder"
