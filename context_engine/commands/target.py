"""What a command runs on: a world with its sandbox, or a configured organization; and how to open an engine there."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from context_engine import running, worlds
from context_engine.embedded import EmbeddedEngine
from core.embedding.port import Embedder
from core.errors import ConfigError
from core.settings import PREFIX, Settings, load_settings
from ingestion.sync import Progress

DEMO_WORLD = Path(__file__).resolve().parents[2] / "fixtures" / "worlds" / "contoso"
DATA_ROOT = Path("data")


@dataclass(frozen=True, slots=True)
class Target:
    """Either `world` is set, or `settings` are; `data` is the folder of the embedded stores."""

    data: Path
    world: Path | None
    settings: Settings | None
    real_clock: bool = False

    @staticmethod
    def of(
        *, world: Path | None = None, data: Path | None = None, config: Path | None = None, now: str = "world"
    ) -> Target:
        """From the command line: a world, else a configuration, else the demo world. Raises ConfigError."""
        if now not in {"world", "real"}:
            raise ConfigError(f"--now is `world` or `real`, not {now!r}", where="--now")
        if world is not None and config is not None:
            raise ConfigError("--world and --config exclude each other", mend="Give one of them")
        if config is not None or (world is None and _configured()):
            settings = load_settings(file=config, overrides={"data": data} if data else None)
            return Target(settings.data, None, settings, real_clock=True)
        folder = world or DEMO_WORLD
        if not (folder / "world.yaml").is_file():
            raise ConfigError("there is no world.yaml in it", where=str(folder), mend="Give a world's folder")
        return Target(data or worlds.data_folder(folder, DATA_ROOT), folder, None, real_clock=now == "real")

    def open(
        self,
        *,
        on_progress: Callable[[Progress], None] = lambda _: None,
        on_step: Callable[[str], None] = lambda _: None,
        embedder: Embedder | None = None,
        answers: bool = True,
    ) -> EmbeddedEngine:
        """An engine on this target, to be used as a context manager; `answers` False: nobody will ask it."""
        return EmbeddedEngine(
            data=self.data,
            world=self.world,
            settings=self.settings,
            real_clock=self.real_clock,
            on_progress=on_progress,
            on_step=on_step,
            embedder=embedder,
            answers=answers,
        )

    def running(self) -> running.Running | None:
        """The process that already serves from this data folder."""
        return running.find(self.data)

    def options(self) -> str:
        """The options by which another command reaches this target."""
        parts: list[Any] = []
        if self.world is not None and self.world.resolve() != DEMO_WORLD:
            parts.append(f"--world {self.world}")
        default = worlds.data_folder(self.world, DATA_ROOT) if self.world else DATA_ROOT
        if self.data != default:
            parts.append(f"--data {self.data}")
        return " ".join(parts)


def _configured() -> bool:
    """Whether the environment names an organization to connect to, or is that of a process beside those that do."""
    telling = tuple(f"{PREFIX}{name}" for name in ("GRAPH", "AZURE_DEVOPS", "SOURCES", "POSTGRES_AUDIT"))
    return any(k.startswith(telling) for k in os.environ)
