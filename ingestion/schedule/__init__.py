"""The schedule: which jobs there are, and how one is run, wherever it is run from."""

from ingestion.lanes import Lane
from ingestion.schedule.agenda import Agenda
from ingestion.schedule.jobs import Job, JobKind, Planned, jobs_for, jobs_of
from ingestion.schedule.parts import HintHandler, RunnerParts, Subscriptions
from ingestion.schedule.runner import JobResult, JobRunner

__all__ = [
    "Agenda",
    "HintHandler",
    "Job",
    "JobKind",
    "JobResult",
    "JobRunner",
    "Lane",
    "Planned",
    "RunnerParts",
    "Subscriptions",
    "jobs_for",
    "jobs_of",
]
