"""Work items, comments, the recycle bin and what frames them, as the SDK and plain REST read them."""

from __future__ import annotations

from typing import Any

import pytest
from azure.devops.v7_1.work_item_tracking.models import WorkItemBatchGetRequest

from tests.sandbox.ado import Rest


@pytest.fixture(scope="module")
def wit(clients: Any) -> Any:
    return clients.get_work_item_tracking_client()


def relations(rest: Rest, number: int) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for row in rest.get(f"/P/_apis/wit/workitems/{number}", **{"$expand": "relations"})["relations"]:
        found.setdefault(row["rel"], []).append(row)
    return found


def test_an_item_carries_its_fields_under_their_real_names(wit: Any) -> None:
    found = wit.get_work_item(1, expand="all")
    fields = found.fields
    assert fields["System.Id"] == 1
    assert fields["System.AreaPath"] == "P\\Sales"
    assert fields["System.TeamProject"] == "P"
    assert fields["System.Tags"] == "eu; tax"
    assert fields["System.ChangedDate"] == "2026-02-10T09:00:00Z"
    assert fields["System.RevisedDate"].startswith("9999")
    assert fields["System.CommentCount"] == 26
    assert fields["Custom.SensitivityLabel"] == "Secret"
    assert fields["Microsoft.VSTS.Common.Severity"] == "1 - High"
    assert fields["Custom.Cost"] == 12
    assert {"id", "descriptor", "displayName", "uniqueName"} <= set(fields["System.AssignedTo"])
    assert fields["System.AssignedTo"]["uniqueName"] == "ben@small.example"
    assert found.as_dict()["url"].endswith("/_apis/wit/workItems/1")


def test_the_format_of_each_long_text_is_told(rest: Rest) -> None:
    found = rest.get("/_apis/wit/workitems/1")
    assert found["multilineFieldsFormat"] == {"System.Description": "markdown"}
    assert found["fields"]["System.Description"] == "## Steps"


def test_the_id_of_an_area_must_be_asked_for_by_name_or_with_everything(rest: Rest) -> None:
    assert "System.AreaId" not in rest.get("/_apis/wit/workitems/1")["fields"]
    named = rest.get("/_apis/wit/workitems/1", fields="System.AreaId,System.Title")["fields"]
    assert set(named) == {"System.AreaId", "System.Title"}
    area = rest.get("/P/_apis/wit/classificationnodes/Areas/Sales")
    assert named["System.AreaId"] == area["id"]


def test_fields_and_an_expansion_are_refused_together(rest: Rest) -> None:
    assert rest.refused("/_apis/wit/workitems/1", fields="System.Id", **{"$expand": "all"})[0] == 400


def test_a_closed_item_tells_who_closed_it_and_when(wit: Any) -> None:
    fields = wit.get_work_item(2).fields
    assert (fields["System.State"], fields["Microsoft.VSTS.Common.ClosedDate"]) == ("Closed", "2026-02-20T09:00:00Z")
    assert fields["Microsoft.VSTS.Common.ClosedBy"]["displayName"] == "Ann Arbor"


# --- batches


def test_a_batch_has_holes_where_there_is_nothing_to_be_had(rest: Rest) -> None:
    body = {"ids": [2, 9, 424242, 1], "fields": ["System.Title"], "errorPolicy": "omit"}
    rows = rest.post("/_apis/wit/workitemsbatch", body)["value"]
    assert [row and row["id"] for row in rows] == [2, None, None, 1]


def test_without_that_policy_one_bad_id_fails_the_batch(rest: Rest) -> None:
    answer = rest.client.post("/_apis/wit/workitemsbatch?api-version=7.1", json={"ids": [1, 9]})
    assert (answer.status_code, answer.json()["message"][:8]) == (404, "TF401232")


def test_more_than_two_hundred_ids_are_refused(rest: Rest) -> None:
    answer = rest.client.post("/_apis/wit/workitemsbatch?api-version=7.1", json={"ids": list(range(1, 202))})
    assert (answer.status_code, answer.json()["message"][:8]) == (400, "VS403474")
    many = rest.post("/_apis/wit/workitemsbatch", {"ids": list(range(1, 201)), "errorPolicy": "omit"})
    assert many["count"] == 200


def test_the_sdk_reads_batches_and_lists_of_ids(wit: Any) -> None:
    request = WorkItemBatchGetRequest(ids=[1, 2], fields=["System.Title"])
    assert [row.id for row in wit.get_work_items_batch(request)] == [1, 2]
    assert [row.id for row in wit.get_work_items([3, 1], project="P")] == [3, 1]


def test_an_item_is_found_in_its_own_project_only(rest: Rest) -> None:
    assert rest.get("/Tide and time/_apis/wit/workitems/500")["id"] == 500
    assert rest.refused("/P/_apis/wit/workitems/500")[0] == 404


def test_an_item_can_be_read_as_it_was(rest: Rest) -> None:
    then = rest.get("/_apis/wit/workitems/2", asOf="2026-02-10T00:00:00Z")["fields"]
    assert then["System.State"] == "Active"
    assert rest.refused("/_apis/wit/workitems/2", asOf="2020-01-01T00:00:00Z")[0] == 404
    assert rest.get("/_apis/wit/workitems/9", asOf="2026-02-20T00:00:00Z")["id"] == 9


# --- history


def test_revisions_and_updates_tell_what_changed(wit: Any) -> None:
    rows = wit.get_revisions(2)
    assert [row.rev for row in rows] == [1, 2]
    assert wit.get_revision(2, 1).fields["System.State"] == "Active"
    updates = wit.get_updates(2)
    assert updates[1].fields["System.State"].as_dict() == {"old_value": "Active", "new_value": "Closed"}
    assert wit.get_update(2, 1).relations.added[0].rel == "System.LinkTypes.Hierarchy-Reverse"


# --- relations


def test_links_have_real_names_and_stand_at_both_ends(rest: Rest) -> None:
    mine = relations(rest, 1)
    assert [r["url"].rpartition("/")[2] for r in mine["System.LinkTypes.Hierarchy-Forward"]] == ["2"]
    theirs = relations(rest, 2)
    assert [r["url"].rpartition("/")[2] for r in theirs["System.LinkTypes.Hierarchy-Reverse"]] == ["1"]
    assert theirs["System.LinkTypes.Hierarchy-Reverse"][0]["attributes"]["name"] == "Parent"


def test_a_link_of_the_worlds_own_is_a_custom_type_with_two_ends(rest: Rest) -> None:
    assert "Custom.LinkTypes.Supersedes-Forward" in relations(rest, 1)
    assert "Custom.LinkTypes.Supersedes-Reverse" in relations(rest, 3)
    names = {row["referenceName"] for row in rest.get("/_apis/wit/workitemrelationtypes")["value"]}
    assert {"Custom.LinkTypes.Supersedes-Reverse", "System.LinkTypes.Related", "ArtifactLink"} <= names


def test_artifacts_and_addresses_are_resource_links(rest: Rest) -> None:
    mine = relations(rest, 1)
    project = rest.get("/_apis/projects/P")["id"]
    repo = rest.get("/P/_apis/git/repositories/app")["id"]
    by_name = {row["attributes"]["name"]: row["url"] for row in mine["ArtifactLink"]}
    assert by_name["Fixed in Commit"].startswith(f"vstfs:///Git/Commit/{project}%2F{repo}%2F")
    assert by_name["Pull Request"] == f"vstfs:///Git/PullRequestId/{project}%2F{repo}%2F7"
    assert by_name["Wiki Page"].endswith("Run%20books%2FOn-call%3A%20night")
    assert [row["url"] for row in mine["Hyperlink"]] == ["https://example.org/x"]
    assert mine["Hyperlink"][0]["attributes"]["comment"] == "the standard"


def test_a_link_to_an_item_in_the_recycle_bin_is_hidden(rest: Rest) -> None:
    assert "System.LinkTypes.Related" not in relations(rest, 1)


# --- comments


def test_comments_come_in_pages_whose_token_stands_in_the_body(rest: Rest) -> None:
    token, seen, pages = None, [], 0
    while True:
        query = {"continuationToken": token} if token else {}
        body = rest.get("/P/_apis/wit/workItems/1/comments", **query)
        seen += [row["text"] for row in body["comments"]]
        pages += 1
        token = body.get("continuationToken")
        if token is None:
            assert "nextPage" not in body
            break
    assert pages == 3
    assert sorted(seen) == sorted(f"Comment {n}" for n in range(25))
    assert seen[0] == "Comment 24"


def test_a_deleted_comment_comes_only_if_asked_for_and_keeps_its_text(clients: Any, wit: Any) -> None:
    assert wit.get_comments("P", 1, top=200).total_count == 25
    with_deleted = wit.get_comments("P", 1, top=200, include_deleted=True).comments
    gone = [comment for comment in with_deleted if comment.is_deleted]
    assert [(comment.id, comment.text) for comment in gone] == [(26, "Taken back")]


def test_comments_need_their_project_and_one_can_be_read_alone(wit: Any, rest: Rest) -> None:
    assert rest.refused("/_apis/wit/workItems/1/comments")[0] == 404
    one = wit.get_comment("P", 1, 3, expand="all")
    assert (one.text, one.format, one.created_by.display_name) == ("Comment 2", "markdown", "Ann Arbor")
    assert one.rendered_text == "<p>Comment 2</p>"
    assert rest.refused("/P/_apis/wit/workItems/1/comments/26")[0] == 404


# --- the recycle bin


def test_the_recycle_bin_lists_ids_and_gives_one_whole(wit: Any, rest: Rest) -> None:
    assert [row.id for row in wit.get_deleted_work_item_shallow_references()] == [9]
    one = wit.get_deleted_work_item(9)
    assert (one.name, one.deleted_by, one.deleted_date) == (
        "Gone", "Ann Arbor <ann@small.example>", "2026-02-25T09:00:00Z",
    )  # fmt: skip
    assert one.resource.fields["System.CreatedBy"] == "Ann Arbor <ann@small.example>"
    assert rest.refused("/_apis/wit/recyclebin/1")[0] == 404
    assert rest.refused("/_apis/wit/workitems/9")[2].startswith("TF401232")
    assert [row["id"] for row in rest.get("/_apis/wit/recyclebin", ids="9,1")["value"]] == [9]


# --- trees, fields, types


def test_area_trees_go_as_deep_as_asked_and_say_where_there_is_more(wit: Any) -> None:
    shallow = wit.get_classification_node("P", "Areas")
    assert (shallow.name, shallow.has_children, shallow.children) == ("P", True, None)
    deep = wit.get_classification_node("P", "Areas", depth=5)
    assert [child.name for child in deep.children] == ["Empty", "Sales"]
    assert [child.path for child in deep.children[1].children] == ["\\P\\Area\\Sales\\EU"]
    roots = wit.get_root_nodes("P", depth=1)
    assert [root.structure_type for root in roots] == ["area", "iteration"]


def test_nodes_are_found_by_id_with_holes(wit: Any, rest: Rest) -> None:
    node = wit.get_classification_node("P", "Areas", path="Sales/EU")
    rows = rest.get("/P/_apis/wit/classificationnodes", ids=f"{node.id},5", errorPolicy="omit")["value"]
    assert [row and row["name"] for row in rows] == ["EU", None]
    assert rest.refused("/P/_apis/wit/classificationnodes/Areas/Nowhere")[0] == 404


def test_iterations_are_those_that_items_name(wit: Any) -> None:
    tree = wit.get_classification_node("P", "Iterations", depth=3)
    assert tree.children[0].children[0].path == "\\P\\Iteration\\2026\\Q1"
    assert wit.get_work_item(3).fields["System.IterationPath"] == "P\\2026\\Q1"


def test_fields_types_and_states_are_described(wit: Any) -> None:
    fields = {field.reference_name: field.type for field in wit.get_work_item_fields()}
    assert fields["System.Description"] == "html"
    assert fields["Custom.Cost"] == "integer"
    assert wit.get_work_item_field("Custom.SensitivityLabel").type == "string"
    assert "Task" in [kind.name for kind in wit.get_work_item_types("P")]
    states = {state.name: state.category for state in wit.get_work_item_type_states("P", "Task")}
    assert (states["New"], states["Closed"]) == ("Proposed", "Completed")
    assert wit.get_relation_type("System.LinkTypes.Hierarchy-Reverse").name == "Parent"
    assert "System.LinkTypes.Hierarchy-Forward" in [kind.reference_name for kind in wit.get_relation_types()]
