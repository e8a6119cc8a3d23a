"""erase: an item or a person leaves every store, never comes back, and there is a receipt of what went where."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from context_engine.alone import PATIENCE, alone
from context_engine.commands.explain import world_keys
from context_engine.commands.lines import WIDTH, line
from context_engine.commands.screen import Screen
from context_engine.commands.target import Target
from context_engine.disk import clear_disk
from context_engine.embedded import EmbeddedEngine
from context_engine.explain_targets import find_item, find_person
from context_engine.wiring import build_eraser
from core import uris
from core.errors import ConfigError, InputError
from core.principals import Principal
from graph.erasures import Erasure
from graph.item_lookup import ItemLookup
from ingestion.erasing import as_json as receipt_json

_ITEM = re.compile(r"(ctx|https?)://.*|!\d+|(?:AB)?#?\d+", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Subject:
    """What is to be erased: an item's address; or a person, with addresses that they were named by, and with what else
    they are called in texts."""

    says: str
    item: str | None = None
    person: Principal | None = None
    addresses: tuple[str, ...] = ()
    also: tuple[str, ...] = ()


def erase(
    target: Target, what: str | None, *, also: Sequence[str] = (), confirm: Callable[[str], bool], as_json: bool
) -> int:
    """Erase, and print the receipt; with `what` None, finish erasures that were cut short. 1 where it isn't confirmed.

    Raises ConfigError beside an engine that serves from the same data folder, since that owns the embedded index.
    """
    if target.running() is not None:
        raise ConfigError(
            "an engine serves from this data folder and owns its index",
            where=str(target.data),
            mend="Stop it, run this again, and start it",
        )
    with ExitStack() as stack:
        screen = Screen(quiet=as_json)
        with screen:
            opened = target.open(on_progress=screen.progress, on_step=screen.step, answers=False)
            engine = stack.enter_context(opened)
        subject = subject_of(engine, what, world_keys(target), also=also) if what is not None else None
        if subject is not None and not confirm(f"{subject.says} will be erased for good"):
            return 1
        done, disk = carry_out(engine, subject, target.data)
    _tell(done, disk, as_json=as_json)
    return 0


def subject_of(
    engine: EmbeddedEngine, what: str, keys: dict[str, Principal] | None = None, *, also: Sequence[str] = ()
) -> Subject:
    """The item or person that is meant. Raises InputError where it is none, several, or a part of an item."""
    what = what.strip()
    if _ITEM.fullmatch(what):
        if also:
            raise InputError("only a person is called something else as well", where="--also")
        if what.lower().startswith("ctx://") and uris.item_uri(what) != what:
            raise InputError(
                "that is the address of a part",
                where=f"item {what!r}",
                mend=f"Items are erased whole ({uris.item_uri(what)}); delete a single comment or reply at its source",
            )
        found = find_item(ItemLookup(engine.database), what)
        return Subject(says=f"The item {found.uri}", item=found.uri)
    person = find_person(engine.database, what, keys=keys)
    addresses = (what,) if "@" in what else ()
    return Subject(says=f"The person {person}", person=person, addresses=addresses, also=tuple(also))


def carry_out(
    engine: EmbeddedEngine, subject: Subject | None, data: Path, *, patience: float = PATIENCE
) -> tuple[list[Erasure], list[str]]:
    """Write it down, wait for other writers, do it with whatever else was left undone, and clear the disk.

    Raises StoreUnavailableError where another process went on writing for longer than `patience` (seconds).
    """
    eraser = build_eraser(engine.settings, engine.database, engine.index, engine.embedder)
    if subject is not None and subject.item is not None:
        eraser.register_item(subject.item)
    elif subject is not None and subject.person is not None:
        eraser.register_person(subject.person, addresses=subject.addresses, also=subject.also)
    names = [f"{c.name}/{reader.name}" for c in engine.connectors for reader in c.readers()]
    mend = (
        "The erasure is written down, and what is read from now on is stored without it. Run "
        "`context-engine erase --resume` when that reader has ended"
    )
    with alone(engine.database, names, engine.holder, engine.lease, patience=patience, mend=mend):
        done = eraser.finish()
    return done, clear_disk(engine.settings, data, engine.index.writer) if done else []


def _tell(done: Sequence[Erasure], disk: Sequence[str], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"erasures": [receipt_json(e) for e in done], "disk": list(disk)}))
        return
    out = Console(width=WIDTH)
    if not done:
        out.print("nothing was left to erase")
    for erasure in done:
        out.print(f"[bold]erased[/bold]: {erasure.kind} {escape(erasure.subject)}", highlight=False, soft_wrap=True)
        for what, n in erasure.receipt["gone"].items():
            line(out, 2, "", f"{escape(what)}: {n}")
        for what in erasure.receipt["kept"]:
            line(out, 2, "kept: ", escape(what))
    for told in disk:
        line(out, 0, "disk: ", escape(told))
