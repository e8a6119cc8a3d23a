"""Which jobs there are, how often, and how they are called."""

from __future__ import annotations

from datetime import timedelta

import pytest

from core.errors import InputError
from core.settings import Settings, WebhookSettings
from ingestion.schedule import Job, JobKind, Lane, jobs_for

READERS = {"teams": ["teams"], "azure_devops": ["work_items", "code"]}


def test_each_source_and_reader_has_its_jobs_and_access_comes_first() -> None:
    plan = jobs_for(READERS, Settings(webhooks=WebhookSettings(public_url="https://hooks.example")))
    assert [p.job.name for p in plan] == [
        "teams/permissions",
        "azure_devops/permissions",
        "teams/memberships",
        "azure_devops/memberships",
        "teams/hints",
        "azure_devops/hints",
        "payloads",
        "teams/subscriptions",
        "teams/content/teams",
        "azure_devops/content/work_items",
        "azure_devops/content/code",
        "teams/reconciliation/teams",
        "azure_devops/reconciliation/work_items",
        "azure_devops/reconciliation/code",
        "upkeep",
    ]
    lanes = [p.job.kind.lane for p in plan]
    assert lanes == sorted(lanes), "nothing that decides access waits behind a crawl"
    assert all(Job.named(p.job.name) == p.job for p in plan)


def test_without_an_address_for_deliveries_nothing_is_subscribed_to() -> None:
    assert not any(p.job.kind is JobKind.SUBSCRIPTIONS for p in jobs_for(READERS, Settings()))


def test_lists_are_compared_with_each_sync_where_the_interval_is_zero() -> None:
    plan = jobs_for(READERS, Settings(reconcile_interval=0))
    assert not any(p.job.kind is JobKind.RECONCILIATION for p in plan)


def test_permissions_are_read_twice_within_the_promise_whatever_is_set() -> None:
    settings = Settings(revocation_sla=100, permission_interval=900, membership_interval=900)
    for planned in jobs_for(READERS, settings):
        if planned.job.kind in (JobKind.PERMISSIONS, JobKind.MEMBERSHIPS):
            assert planned.every == timedelta(seconds=50)
            assert planned.job.kind.lane is Lane.ACCESS


@pytest.mark.parametrize(
    "name",
    [
        "",
        "permissions",
        "teams",
        "teams/payloads",
        "teams/content",
        "teams/permissions/x",
        "teams//teams",
        "/hints",
        "teams/content/",
        "teams/hints/../x",
        "payloads/teams",
        "teams/drop tables",
        "teams/content/teams/x",
    ],
)
def test_what_is_no_job_is_refused(name: str) -> None:
    with pytest.raises(InputError, match="no such job"):
        Job.named(name)
