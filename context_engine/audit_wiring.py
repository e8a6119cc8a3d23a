"""Settings to the audit plane: its own role, its own key of the index, and what it does with both."""

from __future__ import annotations

from context_engine.auditing import AuditPlane, Examiner
from context_engine.guards import labels_that_need_no_word
from context_engine.wiring import connector_names
from core.embedding.port import Embedder
from core.index.privileged import PrivilegedReader
from core.settings import Settings
from graph.audit_reading import Retention
from graph.audit_withheld import QuestionStore
from graph.db import Database
from graph.directory import DirectoryStore
from graph.scopes import ScopeStore


def build_audit_plane(
    settings: Settings, database: Database, index: PrivilegedReader, embedder: Embedder
) -> AuditPlane:
    """The audit plane over its stores. `database` must be the audit role's."""
    examiner = Examiner(
        questions=QuestionStore(database),
        directory=DirectoryStore(database, required=connector_names(settings)),
        scopes=ScopeStore(database, revocation_limit=settings.revocation_limit),
        index=index,
        embedder=embedder,
        most=settings.audit_withheld,
        free_labels=labels_that_need_no_word(settings),
    )
    return AuditPlane(
        examiner if settings.audit_withheld else None, Retention(database), keep_days=settings.audit_keep_days
    )
