"""What each command does, apart from how its options are spelt."""

from context_engine.commands.asking import Asking, ask
from context_engine.commands.demo import demo
from context_engine.commands.erase import erase
from context_engine.commands.evaluation import run_eval
from context_engine.commands.explain import explain_access
from context_engine.commands.exporting import metrics
from context_engine.commands.health import doctor
from context_engine.commands.serving import serve
from context_engine.commands.sources import dead as source_dead
from context_engine.commands.sources import failures as source_failures
from context_engine.commands.sources import retry as source_retry
from context_engine.commands.sources import runs as source_runs
from context_engine.commands.target import Target
from context_engine.commands.upkeep import event, migrate, sync, token

__all__ = [
    "Asking",
    "Target",
    "ask",
    "demo",
    "doctor",
    "erase",
    "event",
    "explain_access",
    "metrics",
    "migrate",
    "run_eval",
    "serve",
    "source_dead",
    "source_failures",
    "source_retry",
    "source_runs",
    "sync",
    "token",
]
