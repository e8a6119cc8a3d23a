"""Pull requests: cut in lists, whole alone, with votes, discussions and what they link."""

from __future__ import annotations

from typing import Any

import pytest
from azure.devops.v7_1.git.models import GitPullRequestSearchCriteria

from tests.sandbox.ado import LONG, Rest

PULLS = "/P/_apis/git/repositories/app/pullrequests"


@pytest.fixture(scope="module")
def git(clients: Any) -> Any:
    return clients.get_git_client()


def test_a_list_cuts_descriptions_at_400_characters_and_a_single_one_is_whole(git: Any) -> None:
    listed = git.get_pull_requests("app", GitPullRequestSearchCriteria(status="all"), "P")
    assert [pull.pull_request_id for pull in listed] == [7, 8]
    assert listed[0].description == LONG[:400]
    assert git.get_pull_request("app", 7, "P").description == LONG
    assert git.get_pull_request_by_id(7).description.endswith("locker 42.")


def test_only_active_ones_are_listed_unless_told_otherwise(rest: Rest, git: Any) -> None:
    assert [row["pullRequestId"] for row in rest.get(PULLS)["value"]] == [7]
    done = rest.get(PULLS, **{"searchCriteria.status": "completed"})["value"]
    assert [(row["pullRequestId"], row["closedDate"]) for row in done] == [(8, "2026-01-05T09:00:00Z")]
    in_project = git.get_pull_requests_by_project("P", GitPullRequestSearchCriteria(status="all"))
    assert [pull.pull_request_id for pull in in_project] == [7, 8]
    assert rest.refused(PULLS, **{"searchCriteria.status": "odd"})[0] == 400


@pytest.mark.parametrize(
    ("criteria", "found"),
    [
        ({"minTime": "2026-01-06T00:00:00Z"}, [7]),
        ({"maxTime": "2026-01-06T00:00:00Z"}, [8]),
        ({"minTime": "2026-01-05T00:00:00Z", "queryTimeRangeType": "closed"}, [8]),
        ({"sourceRefName": "refs/heads/topic"}, [7]),
        ({"targetRefName": "refs/heads/elsewhere"}, []),
    ],
)
def test_criteria_choose(rest: Rest, criteria: dict[str, str], found: list[int]) -> None:
    query = {f"searchCriteria.{name}": value for name, value in ({"status": "all"} | criteria).items()}
    assert [row["pullRequestId"] for row in rest.get(PULLS, **query)["value"]] == found


def test_lists_are_paged_by_skip_and_top(rest: Rest) -> None:
    def page(skip: int) -> list[int]:
        rows = rest.get(PULLS, **{"searchCriteria.status": "all", "$top": 1, "$skip": skip})["value"]
        return [row["pullRequestId"] for row in rows]

    assert [page(0), page(1), page(2)] == [[7], [8], []]


def test_a_pull_request_names_people_branches_and_its_artifact(rest: Rest) -> None:
    pull = rest.get(f"{PULLS}/7", includeWorkItemRefs=True)
    assert (pull["sourceRefName"], pull["targetRefName"]) == ("refs/heads/topic", "refs/heads/main")
    assert pull["createdBy"]["uniqueName"] == "ben@small.example"
    assert pull["artifactId"].startswith("vstfs:///Git/PullRequestId/")
    assert pull["workItemRefs"][0]["id"] == "1"
    assert pull["_links"]["web"]["href"] == "https://dev.azure.com/Small/P/_git/app/pullrequest/7"


def test_reviewers_carry_their_votes(git: Any, rest: Rest) -> None:
    votes = {one.display_name: one.vote for one in git.get_pull_request_reviewers("app", 7, "P")}
    assert votes == {"Ann Arbor": 10, "Cat Castle": 0}
    ann = rest.get(f"{PULLS}/7")["reviewers"][0]["id"]
    assert git.get_pull_request_reviewer("app", 7, ann, "P").vote == 10


def test_threads_keep_their_file_and_votes_are_notes_of_the_system(git: Any, rest: Rest) -> None:
    threads = rest.get(f"{PULLS}/7/threads")["value"]
    spoken = [t for t in threads if t["comments"][0]["commentType"] == "text"]
    assert [t["threadContext"] and t["threadContext"]["filePath"] for t in spoken] == ["/src/deep/a.py", None]
    assert [[c["content"] for c in t["comments"]] for t in spoken] == [["Why two?"], ["Looks good", "Thanks"]]
    # Numbers of comments begin anew in each thread.
    assert [t["comments"][0]["id"] for t in spoken] == [1, 1]
    notes = [t["comments"][0]["content"] for t in threads if t["comments"][0]["commentType"] == "system"]
    assert notes == ["Ann Arbor voted 10"]
    assert len(git.get_threads("app", 7, "P")) == 3
    assert git.get_pull_request_thread("app", 7, 2, "P").status == "active"


def test_commits_come_in_pages_and_work_items_as_references(git: Any, rest: Rest) -> None:
    pages = rest.header_pages(f"{PULLS}/7/commits")
    assert [row["author"]["name"] for rows in pages for row in rows] == ["Ben Baker"]
    assert len(git.get_pull_request_commits("app", 7, "P")) == 1
    assert [ref.id for ref in git.get_pull_request_work_item_refs("app", 7, "P")] == ["1"]


def test_iterations_tell_the_files_that_changed(git: Any) -> None:
    assert [one.id for one in git.get_pull_request_iterations("app", 7, "P")] == [1]
    changes = git.get_pull_request_iteration_changes("app", 7, 1, "P")
    assert [c.additional_properties["item"]["path"] for c in changes.change_entries] == ["/src/deep/a.py"]


def test_what_is_not_there_is_refused(rest: Rest) -> None:
    assert rest.refused(f"{PULLS}/99")[2].startswith("TF401180")
    assert rest.refused(f"{PULLS}/7/threads/99")[0] == 404
    assert rest.refused("/P/_apis/git/repositories/off/pullrequests")[0] == 403
