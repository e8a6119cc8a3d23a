"""What a world file may say, and how a fault in it is told."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from core.errors import ContextEngineError
from fixtures.sandbox.world import WorldError, build_world, load_world
from tests.sandbox import small

HEAD = f"format: 1\nname: tiny\nnow: {small.NOW}\ntenant_id: {small.TENANT}\n"
ANN = "people:\n  ann: {name: Ann, upn: ann@tiny.example}\n"
PROJECT = """
azure_devops:
  organization: tiny
  projects:
    X:
      acl: [{to: ann, allow: [read]}]
"""


def write(folder: Path, text: str, name: str = "world.yaml") -> Path:
    target = folder / name
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, encoding="utf-8")
    return folder


def told(folder: Path) -> str:
    with pytest.raises(WorldError) as caught:
        load_world(folder)
    return str(caught.value)


def test_a_world_error_is_one_of_the_engines_errors() -> None:
    assert issubclass(WorldError, ContextEngineError)


def test_defaults_are_those_of_the_format(tmp_path: Path) -> None:
    world = load_world(write(tmp_path, HEAD + ANN + PROJECT))
    assert (world.people["ann"].kind, world.people["ann"].access_level) == ("member", "basic")
    assert world.azure_devops is not None
    assert world.azure_devops.projects["X"].visibility == "private"
    assert world.now == datetime(2026, 3, 2, 9, tzinfo=UTC)


def test_on_is_a_word_and_an_unquoted_time_is_a_text_as_yaml_1_2_has_it(tmp_path: Path) -> None:
    events = "events:\n  - {id: e, after: 10m, set_acl: {on: project:X, acl: []}}\n"
    world = load_world(write(tmp_path, HEAD + ANN + PROJECT + events))
    assert world.events[0].set_acl is not None
    assert world.events[0].set_acl.on == "project:X"


@pytest.mark.parametrize("word", ["yes", "no", "off", "y", "1_000", "12:30:45"])
def test_words_that_yaml_1_1_turns_into_other_things_stay_texts(tmp_path: Path, word: str) -> None:
    world = load_world(write(tmp_path, HEAD + f"people:\n  {word}: {{name: Somebody, upn: a@b.example}}\n"))
    assert list(world.people) == [word]


def test_files_are_merged_and_a_key_given_twice_is_told_with_both_files(tmp_path: Path) -> None:
    write(tmp_path, HEAD)
    assert list(load_world(write(tmp_path, ANN, "people.yaml")).people) == ["ann"]
    write(tmp_path, "questions: []\n", "questions.yaml")  # not part of the world
    load_world(tmp_path)
    message = told(write(tmp_path, ANN, "more.yaml"))
    assert "'people'" in message
    assert "more.yaml" in message
    assert "people.yaml" in message


def test_a_key_given_twice_in_one_mapping_is_told_with_its_line(tmp_path: Path) -> None:
    assert "world.yaml:7" in told(write(tmp_path, HEAD + ANN + "  ann: {name: B, upn: b@tiny.example}\n"))


def test_json_is_yaml_too_and_a_key_given_twice_in_it_is_refused(tmp_path: Path) -> None:
    data = {"format": 1, "name": "tiny", "now": small.NOW, "tenant_id": small.TENANT, "people": {}}
    assert load_world(write(tmp_path, json.dumps(data))).people == {}
    assert "twice" in told(write(tmp_path, '{"name":"a","name":"b"}'))


def test_long_texts_come_from_files(tmp_path: Path) -> None:
    write(tmp_path, "# Long\n", "files/x.md")
    (tmp_path / "files/old.cs").write_bytes("var é = 1;".encode("utf-16"))
    repo = """      repos:
        r:
          commits:
            - key: c1
              by: ann
              at: 2026-01-01T00:00:00Z
              message: m
              files:
                a.md: {file: files/x.md}
                old.cs: {file: files/old.cs}
                b.bin: {base64: "AAH/"}
                gone.md: null
                file: "a file named file"
"""
    world = load_world(write(tmp_path, HEAD + ANN + PROJECT + repo))
    assert world.azure_devops is not None
    files = world.azure_devops.projects["X"].repos["r"].commits[0].files
    assert files == {
        "a.md": "# Long\n",
        "old.cs": "var é = 1;".encode("utf-16"),
        "b.bin": b"\x00\x01\xff",
        "gone.md": None,
        "file": "a file named file",
    }


@pytest.mark.parametrize("name", ["../secret.md", "/etc/hostname", "files/link.md"])
def test_a_file_outside_of_the_folder_is_refused(tmp_path: Path, name: str) -> None:
    write(tmp_path, "no", "secret.md")
    root = write(tmp_path / "w", HEAD + ANN + PROJECT + work_item(f"description: {{file: {name}}}"))
    (root / "files").mkdir()
    (root / "files/link.md").symlink_to(tmp_path / "secret.md")
    message = told(root)
    assert "outside" in message
    assert "work_items[0].description" in message


def work_item(line: str) -> str:
    rows = ["- id: 1", "  type: Bug", "  title: t", "  created: {by: ann, at: 2026-01-01T00:00:00Z}", f"  {line}"]
    return "      work_items:\n" + "".join(f"        {row}\n" for row in rows)


def test_an_unknown_name_is_told_with_file_path_and_allowed_names(tmp_path: Path) -> None:
    message = told(write(tmp_path, HEAD + ANN + PROJECT + work_item("titel: x")))
    assert "world.yaml: azure_devops.projects.X.work_items[0].titel" in message
    assert "assigned, changed, closed" in message


@pytest.mark.parametrize(
    ("line", "path", "words"),
    [
        ("assigned: bob", "work_items[0].assigned", "no person 'bob'; known are ann"),
        ("label: Secret", "work_items[0].label", "no label 'Secret'"),
        ('links: [{rel: related, to: "work_item:9"}]', "work_items[0].links[0].to", "no work item '9'"),
        ('links: [{rel: related, to: "widget:9"}]', "work_items[0].links[0].to", "work_item:"),
        ("comments: [{by: ann, at: 2026-01-01, text: t}]", "comments[0].at", "time"),
        ("comments: [{by: ann, at: 2026-01-01T00:00:00, text: t}]", "comments[0].at", "zone"),
        ("format: rtf", "work_items[0].format", "'html' or 'markdown'"),
        ("tags: one", "work_items[0].tags", "expected a list"),
        ("state: 3", "work_items[0].state", "expected a text"),
        ("description: {file: nowhere.md}", "work_items[0].description", "no file 'nowhere.md'"),
        ("description: {fil: x}", "work_items[0].description", "{file: <path>}"),
        ("state:", "work_items[0].state", "empty"),
    ],
)
def test_a_wrong_value_is_told_with_its_place(tmp_path: Path, line: str, path: str, words: str) -> None:
    message = told(write(tmp_path, HEAD + ANN + PROJECT + work_item(line)))
    assert path in message
    assert words in message
    assert "world.yaml" in message


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"project": {"work_items": [small.item(1), small.item(1)]}}, "work item 1 is given twice"),
        ({"project": {"acl": small.allow("group:nobody")}}, "no group 'nobody'"),
        ({"project": {"wikis": {"W": {"kind": "code", "repo": "r", "pages": {}}}}}, "no repo 'r'"),
        ({"project": {"wikis": {"W": {"pages": {"A": small.page(), "/A": small.page()}}}}}, "given twice"),
        ({"project": {"repos": {"r": {"commits": [small.commit("a"), small.commit("a")]}}}}, "'a' is given twice"),
        (
            {
                "teams": {
                    "T": {"members": [], "channels": {"C": {"messages": [small.message("m"), small.message("m")]}}}
                }
            },
            "message 'm' is given twice",
        ),
        ({"teams": {"T": {"members": ["team:T"], "channels": {}}}}, "no person 'team:T'"),
        ({"events": [{"id": "e", "after": "1m", "disable_person": {"who": "zed"}}]}, "no person 'zed'"),
        ({"events": [{"id": "e", "after": "1m"}]}, "exactly one of"),
        ({"events": [{"id": "e", "after": "soon", "disable_person": {"who": "ann"}}]}, "events[0].after"),
        (
            {"events": [{"id": "e", "after": "1m", "add_member": {"group": "everyone", "who": "ann"}}]},
            "each person's kind",
        ),
        ({"events": [{"id": "e", "after": "1m", "set_acl": {"on": "team:T", "acl": []}}]}, "no team 'T'"),
    ],
)
def test_names_that_name_nothing_and_keys_given_twice_are_told(change: small.Data, words: str) -> None:
    with pytest.raises(WorldError) as caught:
        small.world(change.pop("project", None), **change)
    assert words in str(caught.value)


def test_an_area_that_only_a_work_item_names_is_a_node_without_an_acl() -> None:
    state = small.state({"work_items": [small.item(1, "/A/B")]})
    assert list(state.areas("P")) == ["/", "/A", "/A/B"]


def test_every_fault_is_told_up_to_a_few() -> None:
    items = [small.item(n, assigned=f"nobody{n}") for n in range(1, 21)]
    with pytest.raises(WorldError) as caught:
        small.world({"work_items": items})
    assert str(caught.value).count("there is no person") == 8
    assert "and 12 more" in str(caught.value)


def test_a_world_from_data_is_checked_like_one_from_files() -> None:
    with pytest.raises(WorldError, match="this name is required"):
        build_world({"format": 1})
