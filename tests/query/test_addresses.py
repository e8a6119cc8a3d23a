"""What pasted addresses name."""

from __future__ import annotations

import pytest

from core.items import Source
from query.addresses import parse_channel, parse_file, parse_url
from query.panels import panel_in, sql_names


@pytest.mark.parametrize(
    "url",
    [
        "https://dev.azure.com/Org/Harbor%20X/_workitems/edit/4711",
        "https://dev.azure.com/org/Harbor/_workitems/edit/4711/?triage=true",
        "https://org.visualstudio.com/DefaultCollection/Harbor/_workitems/edit/4711",
        "https://dev.azure.com/org/Harbor/_boards/board/t/Team/Stories?workitem=4711",
    ],
)
def test_work_item_urls_name_the_work_item(url: str) -> None:
    assert parse_url(url).uri == "ctx://ado/org/work-items/4711"


def test_a_wiki_url_is_looked_up_by_url_and_by_page_number() -> None:
    address = parse_url("https://dev.azure.com/org/Harbor/_wiki/wikis/Harbor.wiki/12/Connect-a-line")
    assert address.source is Source.WIKIS
    assert "https://dev.azure.com/org/Harbor/_wiki/wikis/Harbor.wiki/12/Connect-a-line" in address.urls
    assert (address.title, address.tail) == ("Connect a line", "/pages/12")


def test_a_wiki_url_may_carry_the_page_path() -> None:
    address = parse_url("https://org.visualstudio.com/P/_wiki/wikis/P.wiki?pagePath=%2FWalstroom%2FAansluittijd")
    assert "/Walstroom/Aansluittijd" in address.aliases


def test_a_file_url_keeps_the_line() -> None:
    address = parse_url("https://dev.azure.com/org/P/_git/repo?path=%2Fsrc%2Fx.py&version=GBmain&line=12")
    assert address.urls[0] == "https://dev.azure.com/org/P/_git/repo?path=/src/x.py"
    assert address.detail == "line 12"


def test_commits_and_pull_requests_are_told_apart() -> None:
    commit = parse_url("https://dev.azure.com/org/P/_git/repo/commit/ABCDEF")
    assert commit.urls == ("https://dev.azure.com/org/P/_git/repo/commit/abcdef",)
    assert parse_url("https://dev.azure.com/org/P/_git/repo/pullrequest/12").source is Source.PULL_REQUESTS


def test_a_teams_reply_names_its_thread() -> None:
    address = parse_url(
        "https://teams.microsoft.com/l/message/19%3Aabc%40thread.tacv2/200?tenantId=t&groupId=g&parentMessageId=100"
    )
    assert address.uri == "ctx://teams/t/channels/19:abc@thread.tacv2/messages/100"


def test_channels_are_named_by_url_id_or_path() -> None:
    assert parse_url("https://teams.microsoft.com/l/channel/19%3Aabc%40thread.tacv2/General?groupId=g").channel == (
        "19:abc@thread.tacv2"
    )
    assert parse_channel(" Platform/General ").channel == "Platform/General"


@pytest.mark.parametrize("query", ["viewPanel=7", "orgId=1&viewPanel=panel-7", "panelId=7&fullscreen"])
def test_a_grafana_url_names_dashboard_and_panel(query: str) -> None:
    address = parse_url(f"https://grafana.example/grafana/d/u1d/fuel?{query}")
    assert address.aliases == ("grafana:u1d/7", "grafana:u1d")


@pytest.mark.parametrize("given", ["repo/src/x.py:12", "repo/src/x.py#L12", "repo\\src\\x.py:12:3"])
def test_a_file_may_carry_its_line(given: str) -> None:
    address = parse_file(given)
    assert (address.aliases[0], address.line, address.container) == ("repo/src/x.py", 12, "repo")


@pytest.mark.parametrize("url", ["https://", "not a url", "https://dev.azure.com/", "http://[::1", "ctx://ado/x"])
def test_an_address_of_no_known_shape_is_no_error(url: str) -> None:
    parse_url(url)


def test_a_panel_is_found_in_json_inside_rows_and_in_told_sections() -> None:
    inner = '{"id": 7, "title": "Net", "targets": [{"rawSql": "select 1 from a.v"}]}'
    json = f'{{"title": "D", "panels": [{{"type": "row", "id": 1, "panels": [{inner}]}}]}}'
    told = "## D › Row › Net\n\nPanel 7, stat.\n\n```sql\nselect 1 from a.v\n```\n\n## D › Other\n\nPanel 8."
    for text in (json, told):
        panel = panel_in(text, "7")
        assert panel is not None
        assert (panel.title, sql_names(panel.queries)) == ("Net", ("a.v",))
    assert panel_in(told, "9") is None


@pytest.mark.parametrize(
    "url",
    [
        "https://dev.azure.com/org/P/_workitems/edit/²",
        "https://dev.azure.com/org/P/_git/repo?path=/x.py&line=²",
        f"https://dev.azure.com/org/P/_git/repo?path=/x.py&line={'9' * 5000}",
        "https://dev.azure.com/org/P/_git/repo/pullrequest/²",
        "https://dev.azure.com/org/P/_wiki/wikis/P.wiki/²/x",
    ],
)
def test_what_only_looks_like_a_number_is_none(url: str) -> None:
    address = parse_url(url)
    assert address.uri is None
    assert address.line is None
