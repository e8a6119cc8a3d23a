"""The command line. Every command is thin: options in, one function called, output readable on 80 columns or --json.

What does a command's work is imported by the command itself: help, and a word about a wrong option, wait for nothing.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from context_engine import cli_processes
from context_engine.cli_audit import audit
from core.errors import ConfigError, ContextEngineError, InputError

if TYPE_CHECKING:
    from context_engine.commands.target import Target

app = typer.Typer(
    name="context-engine",
    help="Evidence for short questions at work, trimmed to who asks.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

sources = typer.Typer(help="How the syncs of each source went.", no_args_is_help=True)
app.add_typer(sources, name="sources")

SourceName = Annotated[
    str | None, typer.Option("--source", help="work_items, wikis, code, pull_requests or teams; all where not given.")
]
World = Annotated[
    Path | None, typer.Option("--world", help="Folder of a world to run on, served by the sandbox.", metavar="DIR")
]
Data = Annotated[
    Path | None,
    typer.Option("--data", help="Where the embedded stores live (a folder of the world's own).", metavar="DIR"),
]
Config = Annotated[
    Path | None, typer.Option("--config", help="Settings file (TOML) of a real organization.", metavar="FILE")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else on standard output.")]
Now = Annotated[str, typer.Option("--now", help="`world`: the world's clock; `real`: the machine's.")]


@app.command()
def demo(world: World = None, data: Data = None) -> None:
    """Crawl the demo company and show what two people each get for three questions."""
    from context_engine.commands import demo

    demo.demo(_target(world=world, data=data))


@app.command()
def serve(
    world: World = None,
    data: Data = None,
    config: Config = None,
    port: Annotated[int | None, typer.Option("--port", min=0, max=65535, help="Port of the HTTP API.")] = None,
    host: Annotated[str | None, typer.Option("--host", help="Address of the HTTP API.")] = None,
    now: Now = "world",
) -> None:
    """Serve the HTTP API, with the schedule, until interrupted."""
    from context_engine.commands import serving

    serving.serve(_target(world=world, data=data, config=config, now=now), host=host, port=port)


@app.command()
def sync(
    world: World = None,
    data: Data = None,
    config: Config = None,
    full: Annotated[bool, typer.Option("--full", help="Read everything again, not only what changed.")] = False,
    as_json: Json = False,
) -> None:
    """Sync every source once: permissions first, then what changed. Exit status 1 where a run is not complete."""
    from context_engine.commands import upkeep

    target = _target(world=world, data=data, config=config)
    raise typer.Exit(upkeep.sync(target, as_json=as_json, full=full))


@app.command()
def ask(
    question: Annotated[str, typer.Argument(help="The question.")],
    as_: Annotated[str | None, typer.Option("--as", help="A person of the world (sandbox issuer only).")] = None,
    token: Annotated[
        str | None, typer.Option("--token", help="A bearer token; `-` reads it from standard input.")
    ] = None,
    focus: Annotated[
        list[str] | None,
        typer.Option("--focus", help="What you look at: a URL, repo/path[:line], Team/Channel or ctx:// address."),
    ] = None,
    max_tokens: Annotated[int | None, typer.Option("--max-tokens", help="Size of the bundle.")] = None,
    as_of: Annotated[datetime | None, typer.Option("--as-of", help="Ask as of this time (UTC).")] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Show the ranking factors.")] = False,
    as_json: Json = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print the Markdown that an agent reads.")] = False,
    world: World = None,
    data: Data = None,
    config: Config = None,
    now: Now = "world",
) -> None:
    """Ask one question and print the bundle."""
    from context_engine.commands import asking

    asking.ask(
        _target(world=world, data=data, config=config, now=now),
        asking.Asking(
            question=question,
            person=as_,
            token=token,
            focus=tuple(focus or ()),
            max_tokens=max_tokens,
            as_of=as_of,
            explain=explain,
        ),
        style="json" if as_json else "markdown" if markdown else "text",
    )


@app.command()
def mcp(
    url: Annotated[
        str | None,
        typer.Option("--url", help="Address of a running engine; where not given, the one of the data folder."),
    ] = None,
    world: World = None,
    data: Data = None,
    config: Config = None,
) -> None:
    """Serve MCP on standard input and output, asking a running engine with the token in CONTEXT_ENGINE_TOKEN."""
    from context_engine.commands import mcp

    mcp.mcp(lambda: _target(world=world, data=data, config=config), url=url)


@app.command("eval")
def eval_(
    questions: Annotated[Path | None, typer.Argument(help="questions.yaml (default: the world's own).")] = None,
    world: World = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Ask a world's golden questions. Exit status 2 for a leak, 1 for a failed question."""
    from context_engine.commands import evaluation

    raise typer.Exit(evaluation.run_eval(_target(world=world, data=data), questions, as_json=as_json))


@app.command()
def token(
    person: Annotated[str, typer.Argument(help="A person of the world.")], world: World = None, data: Data = None
) -> None:
    """Print a token of the sandbox issuer for a person of the world."""
    from context_engine.commands import upkeep

    upkeep.token(_target(world=world, data=data), person)


@app.command()
def event(
    event_id: Annotated[str, typer.Argument(help="An event of the world.")], world: World = None, data: Data = None
) -> None:
    """Apply an event of the world, and all before it."""
    from context_engine.commands import upkeep

    upkeep.event(_target(world=world, data=data), event_id)


@app.command("explain-access")
def explain_access(
    item: Annotated[
        str, typer.Argument(help="A ctx:// or web address, a number (4101, AB#4101, !88) or a title.", metavar="ITEM")
    ],
    person: Annotated[
        str, typer.Argument(help="A user principal name, an object id, or a person of the world.", metavar="PERSON")
    ],
    world: World = None,
    data: Data = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Say why a person may or may not read an item: gate, layer, entry and path. Exit status 1 where they may not."""
    from context_engine.commands import explain

    target = _target(world=world, data=data, config=config)
    raise typer.Exit(explain.explain_access(target, item, person, as_json=as_json))


@sources.command("runs")
def sources_runs(
    history: Annotated[
        int, typer.Option("--history", min=0, help="The last N runs instead of each reader's last.", metavar="N")
    ] = 0,
    world: World = None,
    data: Data = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Say how each reader's last run ended, what it counted and checked. Exit status 1 where one is not complete."""
    from context_engine.commands import sources

    target = _target(world=world, data=data, config=config)
    raise typer.Exit(sources.runs(target, as_json=as_json, history=history))


@sources.command("failures")
def sources_failures(
    source: SourceName = None, world: World = None, data: Data = None, config: Config = None, as_json: Json = False
) -> None:
    """List items that could not be read or processed: why, how often, and when again. Exit status 1 for any."""
    from context_engine.commands import sources

    target = _target(world=world, data=data, config=config)
    raise typer.Exit(sources.failures(target, source, as_json=as_json))


@sources.command("dead")
def sources_dead(world: World = None, data: Data = None, config: Config = None, as_json: Json = False) -> None:
    """List jobs, messages and hints of deliveries that were given up, and why. Exit status 1 for any."""
    from context_engine.commands import sources

    raise typer.Exit(sources.dead(_target(world=world, data=data, config=config), as_json=as_json))


@sources.command("retry")
def sources_retry(source: SourceName = None, world: World = None, data: Data = None, config: Config = None) -> None:
    """Let the next sync try every parked item, however long it still had to wait, and at once what was given up."""
    from context_engine.commands import sources

    raise typer.Exit(sources.retry(_target(world=world, data=data, config=config), source))


@app.command()
def erase(
    what: Annotated[
        str | None,
        typer.Argument(
            help="An item (ctx:// or web address, 4101, AB#4101, !88) or a person (user principal name, object id, "
            "user:TENANT/OID, a person of the world).",
            metavar="ITEM|PERSON",
        ),
    ] = None,
    also: Annotated[
        list[str] | None,
        typer.Option("--also", help="What a person is called as well: a nickname, a last name, a former address."),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Finish erasures that were cut short.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Don't ask.")] = False,
    world: World = None,
    data: Data = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Erase an item or a person from every store for good, and print a receipt of what went where."""
    from context_engine.commands import erase

    if (what is None) != resume:
        raise ConfigError("erase takes an item or a person, or --resume", where="erase")
    if as_json and not yes and not resume:
        raise ConfigError("nobody can be asked where JSON is printed", where="--json", mend="Give --yes as well")
    target = _target(world=world, data=data, config=config)
    status = erase.erase(
        target, what, also=also or (), confirm=lambda question: yes or typer.confirm(question), as_json=as_json
    )
    raise typer.Exit(status)


@app.command()
def migrate(config: Config = None) -> None:
    """Bring the schema of the configured Postgres up to date (embedded mode does it by itself)."""
    from context_engine.commands import upkeep

    upkeep.migrate(config)


@app.command()
def metrics(config: Config = None) -> None:
    """Export metrics for Prometheus on `metrics_port`, until interrupted (`serve` does it by itself)."""
    from context_engine.commands import exporting

    exporting.metrics(config)


@app.command()
def doctor(world: World = None, data: Data = None, config: Config = None, as_json: Json = False) -> None:
    """Say what is configured, reachable and fresh, and what to do about what isn't. Exit status 1 for trouble."""
    from context_engine.commands import health

    raise typer.Exit(health.doctor(_target(world=world, data=data, config=config), as_json=as_json))


cli_processes.add_to(app)
app.add_typer(audit, name="audit")


def _target(
    *, world: Path | None = None, data: Path | None = None, config: Path | None = None, now: str = "world"
) -> Target:
    """What a command runs on; see `Target.of`."""
    from context_engine.commands.target import Target

    return Target.of(world=world, data=data, config=config, now=now)


def main() -> None:
    """Run the command line; a mistake of the user's is a message and exit status 64, never a traceback."""
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    # The base of all usage errors. Their usual exit status, 2, means a leak in `eval`.
    usage_error: Any = typer.BadParameter.__base__
    usage_error.exit_code = 64
    run: Callable[[], Any] = app
    try:
        run()
    except (ConfigError, InputError) as e:
        _fail(e, 64)
    except ContextEngineError as e:
        _fail(e, 65)
    except OSError as e:  # a folder that can't be written, a full disk, a folder where a file should be
        where = next((str(name) for name in (e.filename, e.filename2) if name is not None), None)
        _fail(ConfigError(e.strerror or type(e).__name__, where=where, mend="Look at the path and its disk"), 64)
    except KeyboardInterrupt:
        sys.exit(130)


def _fail(error: ContextEngineError, status: int) -> None:
    if "--json" in sys.argv:
        print(json.dumps({"error": error.message, "where": error.where, "mend": error.mend}))
    print(f"context-engine: {error}", file=sys.stderr)
    sys.exit(status)


if __name__ == "__main__":
    main()
