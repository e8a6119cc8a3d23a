"""Items are resources at their addresses, for who may read them; for all others there is nothing there."""

from __future__ import annotations

import re

import pytest

from query.mcp.templates import TEMPLATES
from tests.mcp.calls import ERAS, Caller, Era
from tests.mcp.conftest import TwoPeople

_FENCE = re.compile(r"\b[a-z]{30}\b")


@pytest.mark.parametrize("era", ERAS)
def test_an_item_is_read_at_its_address_as_the_same_markdown_as_over_http(two: TwoPeople, era: Era) -> None:
    for uri in (two.shared, two.hidden):
        message = Caller(two.live, two.one, era).read(uri)
        (content,) = message["result"]["contents"]
        assert (content["uri"], content["mimeType"]) == (uri, "text/markdown")
        headers = {"Authorization": f"Bearer {two.live.token(two.one)}", "Accept": "text/markdown"}
        markdown = two.live.client.get("/v1/items", params={"uri": uri}, headers=headers).text
        assert _FENCE.sub("fence", content["text"]) == _FENCE.sub("fence", markdown)


def test_what_is_read_may_be_kept_by_nobody(two: TwoPeople) -> None:
    answer = Caller(two.live, two.one).ask("resources/read", {"uri": two.shared})
    assert answer.headers["cache-control"] == "no-store"
    assert (answer.json()["result"]["ttlMs"], answer.json()["result"]["cacheScope"]) == (0, "private")


@pytest.mark.parametrize("era", ERAS)
def test_what_is_hidden_and_what_is_not_there_are_the_same_error(two: TwoPeople, era: Era) -> None:
    caller = Caller(two.live, two.other, era)
    hidden, absent = caller.read(two.hidden), caller.read(two.hidden + "0")
    assert hidden["error"]["code"] == -32602
    assert hidden["error"]["data"] == {"uri": two.hidden}
    assert absent["error"]["data"] == {"uri": two.hidden + "0"}
    assert hidden["error"]["message"] == absent["error"]["message"]
    assert hidden["error"].keys() == absent["error"].keys()


def tricks(uri: str) -> list[str]:
    """Other spellings of an address, and addresses of other things."""
    head, _, tail = uri.rpartition("/")
    return [
        f"{head}/../{tail}",
        f"{head}/x/../{tail}",
        f"{head}/./{tail}",
        f"{head}//{tail}",
        f"{head}/%2e%2e/{tail}",
        f"{head}/x/%2E%2E/{tail}",
        f"{head}%2F{tail}",
        f"{head}%252F{tail}",
        f"{head}\\{tail}",
        f"{head}/{tail}%00",
        f"{uri}\x00",
        f"{uri}\n",
        f"{uri}?as=admin",
        f"{uri}#L1",
        f"{uri}/",
        f" {uri}",
        uri.replace("ctx://", "CTX://"),
        uri.replace("ctx://", "ctx:/"),
        uri.replace("ctx://", "ctx://user@"),
        uri.replace("ctx://", "file://"),
        uri.replace("ctx://", "http://127.0.0.1:9/"),
        uri.replace("ctx://ado", "ctx://аdo").replace("ctx://teams", "ctx://tеams"),  # Cyrillic а, е
        uri.replace("/", "\u2215"),
        "ctx://" + "a/" * 4000,
        "ctx://%",
        "ctx://{+path}",
        "file:///etc/passwd",
        "data:text/plain,x",
        "E1",
        "",
    ]


def test_no_other_spelling_of_an_address_leads_anywhere(two: TwoPeople) -> None:
    """The person may read the item itself, so whatever a trick would open, it would open here."""
    caller = Caller(two.live, two.one)
    assert "result" in caller.read(two.hidden)
    for uri in tricks(two.hidden):
        message = caller.read(uri)
        assert message["error"]["code"] == -32602, uri
        assert message["error"].get("data") == {"uri": uri}, uri
        assert message["error"]["message"] == "There is no such resource, or you may not read it", uri


@pytest.mark.parametrize("era", ERAS)
def test_templates_say_what_addresses_look_like_and_no_list_says_what_exists(two: TwoPeople, era: Era) -> None:
    caller = Caller(two.live, two.one, era)
    listed = caller.ask("resources/templates/list", {}).json()["result"]["resourceTemplates"]
    assert [t["uriTemplate"] for t in listed] == [t.uri_template for t in TEMPLATES]
    assert all(t["uriTemplate"].startswith("ctx://") and t["mimeType"] == "text/markdown" for t in listed)
    assert caller.ask("resources/list", {}).json()["result"]["resources"] == []


def test_every_address_in_evidence_has_the_form_of_a_template(two: TwoPeople) -> None:
    forms = [
        re.compile(re.sub(r"\\\{\\?\+\w+\\\}", ".+", re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(t.uri_template))))
        for t in TEMPLATES
    ]
    seen = {e["uri"] for e in two.live.ask(two.one, "what changed at the partner gateway?")["evidence"]}
    assert seen
    for uri in seen:
        assert any(form.fullmatch(uri) for form in forms), uri
