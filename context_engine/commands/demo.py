"""demo: crawl the demo company, then three questions as two people each."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.rule import Rule
from rich.text import Text

from context_engine.commands.asking import post
from context_engine.commands.screen import Screen
from context_engine.commands.target import DEMO_WORLD, Target
from context_engine.commands.upkeep import print_reports
from context_engine.evaluate import request_body
from context_engine.http_server import LoopbackServer
from context_engine.questions import Question, load_questions
from context_engine.show import show_bundle
from context_engine.worlds import AUDIENCE
from core.bundle import Bundle
from core.errors import ConfigError, InputError
from fixtures.sandbox import references


@dataclass(frozen=True, slots=True)
class Scene:
    """One question and its two askers, who should get different bundles."""

    question: str
    askers: tuple[str, str]
    focus: dict[str, Any] | None
    why: str


PANEL = "https://grafana.contoso.example/d/pv7Qk2mZz/partner-value?viewPanel=2"
SCENES = (
    Scene(
        "I need to do an integration with a new partner, where do I do this?",
        ("stephan", "oliver"),
        None,
        "Both are new to it. Oliver's licence shows him no code and no pull requests, so no adapters to copy from.",
    ),
    Scene(
        "When looking at this dashboard, how is this graph value calculated?",
        ("stephan", "lena"),
        {"url": PANEL},
        "Lena may see the dashboard, but not the repo with the SQL view behind it.",
    ),
    Scene(
        "what is CSR?",
        ("stephan", "jonas"),
        None,
        "Sales and platform mean different things by it: each gets their own team's meaning first.",
    ),
)


def demo(target: Target) -> None:
    """Run the demo on a world (the demo world by default)."""
    if target.world is None:
        raise ConfigError("the demo runs on a world", mend="Leave out --config, or give --world")
    if target.running() is not None:
        raise ConfigError(
            "an engine is serving from this data folder", where=str(target.data), mend="Stop `make serve` first"
        )
    out = Console(width=80)
    started = time.perf_counter()
    shown = scenes(target)
    with Screen() as screen, target.open(on_progress=screen.progress, on_step=screen.step) as engine:
        fresh = not engine.was_synced()
        reports = engine.bring_up_to_date()
        screen.__exit__(None, None, None)
        if fresh:
            print_reports(reports)
            out.print(f"ingested in {time.perf_counter() - started:.0f} s\n")
        else:
            out.print(f"already ingested; ready in {time.perf_counter() - started:.0f} s\n")
        assert engine.sandbox is not None
        state = engine.sandbox.state
        if state.applied:
            out.print(
                f"This is the world after its events {', '.join(state.applied)}, so it is not quite as told below. "
                f"To begin again, remove {target.data}\n",
                highlight=False,
                markup=False,
            )
        with LoopbackServer(engine.app) as server:
            if not shown:
                out.print("nothing to ask: no questions.yaml that has two askers\n")
            for scene in shown:
                out.print(Rule(f"[bold]{scene.question}"))
                out.print(f"[dim]{scene.why}[/dim]")
                out.print("[dim]* marks what only one of the two was given.[/dim]\n")
                bundles = []
                for person in scene.askers:
                    body = request_body(
                        Question.model_validate(
                            {"id": "demo", "as": person, "ask": scene.question, "focus": scene.focus}
                        ),
                        lambda ref: references.target(state, ref).uri,
                    )
                    token = engine.sandbox.token(person, audience=AUDIENCE)
                    try:
                        bundles.append(Bundle.model_validate_json(post(server.url, token, body).content))
                    except InputError as e:
                        # An event may have disabled them: that they are refused is what there is to show.
                        name = state.world.people[person].name
                        out.print(f"{name} is given nothing: {e.where}: {e.message}\n", highlight=False, markup=False)
                if len(bundles) < len(scene.askers):
                    for bundle in bundles:
                        show_bundle(bundle, out, most=6)
                        out.print()
                    continue
                given = [{e.uri for e in bundle.evidence} for bundle in bundles]
                for bundle, mine, theirs in zip(bundles, given, reversed(given), strict=True):
                    show_bundle(bundle, out, most=6, marked=mine - theirs)
                    out.print()
                _differences(out, bundles)
    more = target.options()
    own = target.world is not None and target.world.resolve() != DEMO_WORLD
    asker = "PERSON" if own else "sarah"
    question = "a question" if own else "what is CSR?"
    out.print(Rule("[bold]How to go on"))
    for line, says in (
        (
            f".venv/bin/context-engine serve {more}" if more else "make serve",
            "the HTTP API, with a curl and a token for each person",
        ),
        (f'.venv/bin/context-engine ask "{question}" --as {asker} {more}', "one question"),
        (f".venv/bin/context-engine eval {more}", "the golden questions"),
    ):
        out.print(f"{says}:", highlight=False)
        out.print(f"  {line.rstrip()}", highlight=False, markup=False, soft_wrap=True)


def scenes(target: Target) -> tuple[Scene, ...]:
    """The three questions; of another world, its first three questions that have a second asker."""
    assert target.world is not None
    if target.world.resolve() == DEMO_WORLD:
        return SCENES
    path = target.world / "questions.yaml"
    questions = load_questions(path).questions if path.is_file() else ()
    people = list(dict.fromkeys(q.as_ for q in questions))
    once = {q.ask: q for q in reversed(questions) if q.after is None}
    chosen = [q for q in questions if once.get(q.ask) is q][:3]
    return tuple(
        Scene(q.ask, (q.as_, next(p for p in people if p != q.as_)), _focus(q), "two people, one question")
        for q in chosen
        if len(people) > 1
    )


def _focus(question: Question) -> dict[str, Any] | None:
    focus = question.focus[0] if isinstance(question.focus, tuple) else question.focus
    return focus.model_dump(exclude_none=True) if focus else None


def _differences(out: Console, bundles: list[Bundle]) -> None:
    """Which evidence only one of two askers was given, shown above or not."""
    first, second = bundles
    for mine, theirs in ((first, second), (second, first)):
        have = {e.uri for e in theirs.evidence}
        only = [e for e in mine.evidence if e.uri not in have]
        if only:
            out.print(f"[bold]only {mine.asker.name}:[/bold]", highlight=False)
        for e in only[:6]:
            out.print(Text(f"  {e.ref.ljust(4)}{e.container}: {e.title}"), no_wrap=True, overflow="ellipsis")
        if len(only) > 6:
            out.print(f"  … and {len(only) - 6} more", highlight=False)
    first_people = [p.name for p in first.people]
    second_people = [p.name for p in second.people]
    if first_people != second_people:
        out.print(
            f"[bold]people:[/bold] {', '.join(first_people[:3]) or 'nobody'} for {first.asker.name}; "
            f"{', '.join(second_people[:3]) or 'nobody'} for {second.asker.name}",
            highlight=False,
        )
    out.print()
