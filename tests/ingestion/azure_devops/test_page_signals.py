"""What a wiki page says of its own standing is read from its head, and a name alone is nobody."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from core.items import PersonRef
from core.principals import user
from ingestion.azure_devops.signals import Signals, among, read_signals
from ingestion.azure_devops.wiki_paths import PageIndex, attachments, git_path, link_targets

SARAH = PersonRef("Sarah Lindqvist", user("t", "11111111-1111-4111-8111-111111111111"))
JONAS = PersonRef("Jonas Weber", user("t", "22222222-2222-4222-8222-222222222222"))
OTHER_SARAH = PersonRef("Sarah Okoye", user("t", "33333333-3333-4333-8333-333333333333"))


def test_owner_and_review_lines_at_the_head_are_read() -> None:
    found = read_signals(
        "# Onboarding\n\nOwner: Sarah Lindqvist (was: Tomas)\nLast reviewed: 2026-03-12 by Sarah\n\nText."
    )
    assert found == Signals("Sarah Lindqvist", datetime(2026, 3, 12, tzinfo=UTC), "Sarah")


@pytest.mark.parametrize("text", ["", " \n\n", "```sql\nSELECT 1\n```\n", "---\ntitle: x\n---\n"])
def test_a_page_that_is_empty_or_begins_with_code_says_nothing_of_itself(text: str) -> None:
    assert read_signals(text) == Signals()


def test_front_matter_is_read() -> None:
    text = "---\nowner: Sarah Lindqvist\nreviewed: 2026-03-12\nstatus: deprecated\nreplaced_by: /New/Page\n---\n# X\n"
    found = read_signals(text)
    assert found == Signals("Sarah Lindqvist", datetime(2026, 3, 12, tzinfo=UTC), None, True, ("/New/Page",))


MARCH = datetime(2031, 3, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "owner", "at"),
    [
        ("| Owner | Ida Moe |\n|---|---|\n| Last reviewed | 2031-03-01 |", "Ida Moe", MARCH),
        ("| Field | Value |\n|---|---|\n| **Owner** | Ida Moe |\n| Reviewed on | 1 March 2031 |", "Ida Moe", MARCH),
        ("| Owner | Last reviewed |\n| :-- | --: |\n| Ida Moe | 2031-03-01 |", "Ida Moe", MARCH),
        ("| Eigenaar | Laatst gecontroleerd |\n|---|---|\n| Ida Moe | 1 maart 2031 |", "Ida Moe", MARCH),
        ("Eigenaar: Ida Moe\nLaatst beoordeeld op: 2031-03-01 door Ida", "Ida Moe", MARCH),
        ("**Owner:** Ida Moe\n\n**Last reviewed:** March 1st, 2031", "Ida Moe", MARCH),
        ("---\nlast reviewed: 2031-03-01\nPage-Owner: Ida Moe\n---\ntext", "Ida Moe", MARCH),
        ("Last reviewed: 31 February 2031", None, None),
        ("Last reviewed: 3 Smarch 2031", None, None),
        # A table of the page's own matter.
        ("| System | Owner |\n|---|---|\n| Crane | |", None, None),
        ("| Step | Done |\n|---|---|\n| Read | yes |", None, None),
    ],
)
def test_owner_and_review_are_read_from_lines_tables_and_front_matter(
    text: str, owner: str | None, at: datetime | None
) -> None:
    found = read_signals(text)
    assert (found.owner, found.reviewed_at) == (owner, at)


@pytest.mark.parametrize(
    ("line", "replaced"),
    [
        (
            "> **Deprecated.** Replaced by [Partner onboarding](/Partners/Partner%20onboarding).",
            ("/Partners/Partner%20onboarding",),
        ),
        ("Deprecated, replaced by [X](./X.md)", ("./X.md",)),
        ("# Deprecated", ()),
        ("**Status:** deprecated", ()),
        ("Status: deprecated", ()),
        ("This page is obsolete, superseded by Berth planning.", ("Berth planning",)),
        ("> This page is obsolete. See [Tunnels](/Tunnels) instead.", ("/Tunnels",)),
        ("> This guide is out of date.\n> Please use [Tunnels](/Tunnels).", ("/Tunnels",)),
        ("**Deprecated since March 2027** in favour of [Know it](/Know it).", ("/Know it",)),
        ("This document has been superseded by [Netting](/Netting) and is kept for reference.", ("/Netting",)),
        ("This runbook is no longer maintained; use Berth planning instead.", ("Berth planning",)),
        ("Deze pagina is vervallen, zie [Ligplaatsen](/Ligplaatsen).", ("/Ligplaatsen",)),
        ("Deze werkinstructie is vervangen door Kadeplanning.", ("Kadeplanning",)),
        ("This page is archived.", ()),
    ],
)
def test_a_deprecation_banner_is_read_with_what_replaces_the_page(line: str, replaced: tuple[str, ...]) -> None:
    found = read_signals(f"{line}\n\n# Title\n\ntext")
    assert found.deprecated
    assert found.replaced_by == replaced


@pytest.mark.parametrize(
    "text",
    [
        "# API\n\nDeprecated endpoints are listed below.",
        "# API\n\nThis page is about retired cranes. See [Cranes](/Cranes).",
        "# API\n\nThis list of parts was replaced by hand. See [Parts](/Parts).",
        "# API\n\nThis pump is retired in June, use [the other](/Other).",
        "# API\n\nIn favour of [X](/X), see [Y](/Y).",
        "# Guide\n\n## Old\n\nDeprecated: the v1 call.\nOwner: Nobody\nLast reviewed: 2020-01-01",
        "# Guide\n\n```\nOwner: Fence\n```",
    ],
)
def test_what_stands_in_the_page_s_own_matter_is_no_signal(text: str) -> None:
    assert read_signals(text) == Signals()


def test_a_name_is_a_person_only_among_those_who_edited_the_page() -> None:
    assert among("Sarah", [SARAH, JONAS]) == SARAH
    assert among("Sarah Lindqvist", [SARAH, OTHER_SARAH]) == SARAH
    assert among("Sarah", [SARAH, OTHER_SARAH]) == PersonRef("Sarah")
    assert among("Mallory", [SARAH]) == PersonRef("Mallory")
    assert among(None, [SARAH]) is None


def test_pages_are_found_by_encoded_decoded_hyphenated_and_relative_links() -> None:
    index = PageIndex({7: "/Oppstart/Onboarding for nye utviklere på kai", 8: "/Oppstart/Annet", 9: "/A-B"})
    here = "/Oppstart/Annet"
    for link in (
        "/Oppstart/Onboarding%20for%20nye%20utviklere%20p%C3%A5%20kai",
        "/Oppstart/Onboarding for nye utviklere på kai",
        "/Oppstart/Onboarding-for-nye-utviklere-på-kai",
        "/Oppstart/Onboarding-for-nye-utviklere-p%C3%A5-kai.md#steps",
        "./Onboarding-for-nye-utviklere-på-kai.md",
        "Onboarding-for-nye-utviklere-på-kai",
    ):
        assert index.find(link, here) == 7, link
    assert index.find("https://x.example/Oppstart/Annet", here) is None
    assert index.find("/A%2DB", here) == 9
    assert index.titled("annet") == 8


def test_a_page_s_file_escapes_hyphens_and_writes_spaces_as_hyphens() -> None:
    assert git_path("/Runbooks/On-call: nights") == "/Runbooks/On%2Dcall%3A-nights.md"
    assert git_path("/A b", "/docs") == "/docs/A-b.md"


def test_links_may_have_spaces_and_titles_and_pictures_are_no_links() -> None:
    assert link_targets("![x](a.png) [y](/B c) [z](</D e> \"t\") [y](/F 't') [q](/G)") == ["/B c", "/D e", "/F", "/G"]


def test_a_link_leads_to_the_page_that_it_spells_rather_than_to_one_that_is_spelt_like_it() -> None:
    pages = {1: "/On call", 2: "/On-call", 3: "/Åpen kai"}
    index = PageIndex(pages)
    assert index.find("/On-call", "/x") == 1  # in links and files a hyphen is a space
    assert index.find("/On%20call", "/x") == 1
    assert index.find("/On%2Dcall", "/x") == 2
    assert index.find("On-call.md", "/x") == 1
    assert {index.find(f"/{x}", "/x") for x in ("Åpen kai", "%C3%85pen%20kai", "Åpen-kai", "åpen-kai.md")} == {3}


def test_links_that_come_to_lead_elsewhere_make_a_page_stale() -> None:
    before = PageIndex({1: "/A", 2: "/B"})
    looked = before.lookups(["/B", "/C", "https://x/y"], ["Old name"], "/A")
    assert looked == {"/B": 2, "/C": None, "title: Old name": None}
    assert not before.stale(looked, "/A")
    assert not PageIndex({1: "/A", 2: "/B", 3: "/D"}).stale(looked, "/A")
    assert PageIndex({1: "/A", 2: "/B", 3: "/C"}).stale(looked, "/A")
    assert PageIndex({1: "/A", 2: "/B", 3: "/Q/Old name"}).stale(looked, "/A")
    assert PageIndex({1: "/A", 2: "/E"}).stale(looked, "/A")


def test_attachments_are_told_by_their_names() -> None:
    text = (
        "![plan](/.attachments/kai%20plan-3f2a.png =300x) and [sheet](/.attachments/rates.xlsx 'Rates')\n"
        '<img src="/.attachments/old.gif"> [again](.attachments/rates.xlsx) [not](/attachments/x.png)'
    )
    assert attachments(text) == ["kai plan-3f2a.png", "rates.xlsx", "old.gif"]
