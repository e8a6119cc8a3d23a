"""Ids come from names alone and have the forms of the real systems."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID, uuid5

from fixtures.sandbox.ids import Ids, blob_sha, decode_descriptor, guid_words
from fixtures.sandbox.state import SandboxState
from tests.sandbox import small

IDS = Ids(small.TENANT)


def test_a_person_without_an_oid_gets_one_from_tenant_and_key() -> None:
    assert IDS.person("ann") == str(uuid5(UUID(small.TENANT), "ann"))
    assert IDS.person("ann", "AAAAAAAA-0000-4000-8000-000000000001") == "aaaaaaaa-0000-4000-8000-000000000001"


def test_a_guid_in_a_sid_is_written_as_azure_devops_writes_it() -> None:
    assert guid_words("3f2a9c1e-5b7d-4e60-8a11-c0ffee123456") == "513550911-2103140430-2316419327-3994170454"


def test_a_group_descriptor_decodes_to_the_sid_that_acls_hold() -> None:
    scope = IDS.project("P")
    for entra in (True, False):
        sid = IDS.group_sid("staff", entra=entra, scope_id=scope)
        descriptor = IDS.group_descriptor(sid, entra=entra)
        assert descriptor.partition(".")[0] == ("aadgp" if entra else "vssgp")
        assert "=" not in descriptor
        assert decode_descriptor(descriptor) == sid
        assert IDS.group_identity(sid) == f"Microsoft.TeamFoundation.Identity;{sid}"
    assert IDS.group_sid("staff", entra=True, scope_id=scope).endswith("-3-" + guid_words(IDS.group("staff")))
    assert f"-{guid_words(scope)}-1-" in IDS.group_sid("staff", entra=False, scope_id=scope)


def test_a_message_id_looks_like_a_time_and_is_its_own_in_its_channel() -> None:
    at = datetime(2026, 2, 2, 9, tzinfo=UTC)
    assert len(IDS.message("T", "C", "m", at)) == 13
    many = [small.message(f"m{n}") for n in range(3000)]  # all in one moment
    state = small.state(teams={"T": {"members": [], "channels": {"C": {"messages": many}}}})
    ids = [now.id for now in state.messages("T", "C")]
    assert len(set(ids)) == 3000


def test_ids_do_not_hang_on_what_else_the_world_holds() -> None:
    def ids(state: SandboxState) -> list[object]:
        page = state.page_now("W", "A")
        return [page.id, state.areas("P"), state.git("r").commits[0].sha, state.message("T", "C", "m").id]

    repo = {"commits": [small.commit("c1", a_md="x")]}
    channel = {"messages": [small.message("m")]}
    small_one = small.state(
        {"wikis": {"W": {"pages": {"A": small.page()}}}, "repos": {"r": repo}},
        teams={"T": {"members": [], "channels": {"C": channel}}},
    )
    more = {"messages": [small.message("m"), small.message("n")]}
    large_one = small.state(
        {
            "wikis": {"V": {"pages": {"B": small.page()}}, "W": {"pages": {"A": small.page()}}},
            "repos": {"q": repo, "r": repo},
        },
        teams={"S": {"members": [], "channels": {"C": more}}, "T": {"members": [], "channels": {"C": channel}}},
    )
    assert ids(small_one) == ids(large_one)


def test_a_blob_has_the_id_that_git_gives_it() -> None:
    assert blob_sha(b"hello\n") == "ce013625030ba8dba906f756967f9e9ca394464a"
