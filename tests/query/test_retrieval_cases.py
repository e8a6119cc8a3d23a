"""Cases in which retrieval elsewhere went wrong: times that lie ahead, budgets that are broken, tails that are lost."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from core.bundle import Bundle
from core.embedding.port import Embedder
from core.render import render_markdown
from core.token_count import count_tokens
from tests.support import border
from tests.support.border import wiki
from tests.support.laboratory import NOW, Lab, issuer_of, laboratory
from tests.support.postgres import PostgresServer


@pytest.fixture(scope="module")
def lab(postgres: PostgresServer, embedder: Embedder) -> Iterator[Lab]:
    """A laboratory with the model that ships, and the rules of the border."""
    with issuer_of(border.PEOPLE) as issuer, laboratory(postgres, embedder, issuer) as opened:
        opened.directory(border.ACCESS.containers(opened))
        opened.permissions(border.ACCESS.scopes(opened))
        yield opened


def test_a_time_that_lies_ahead_makes_nothing_fresher_and_one_that_is_missing_nothing_worse(lab: Lab) -> None:
    """C065."""
    times = {
        "yesterday": NOW - timedelta(days=1),
        "ahead": datetime(2099, 1, 1, tzinfo=UTC),
        "now": NOW,
        "missing": None,
        "first": datetime(1, 1, 1, tzinfo=UTC),
    }
    for n, (name, at) in enumerate(times.items()):
        kind = f"The quokka enclosure is fed at {n}:30 by the {name} crew, with {'lettuce' if n % 2 else 'carrots'}"
        lab.write([wiki(n, f"Quokka {name}", kind, "open", created_at=at, modified_at=at)])
    bundle = lab.ask(border.ASKER, "when is the quokka enclosure fed?", max_tokens=20_000)
    found = {e["title"].removeprefix("Quokka "): e for e in bundle["evidence"] if e["title"].startswith("Quokka")}
    assert found.keys() == times.keys()
    factor = {name: e["factors"]["time"] for name, e in found.items()}
    assert factor["ahead"] == factor["now"] <= 1
    assert 0 < factor["first"] <= factor["yesterday"] <= factor["now"]
    assert factor["first"] <= factor["missing"] <= 1
    assert [name for name, e in found.items() if "date_in_future" in e["flags"]] == ["ahead"]


@pytest.mark.parametrize("budget", [50, 128, 512, 4096])
def test_everything_that_is_sent_counts_towards_the_budget(lab: Lab, budget: int) -> None:
    """C067: the whole Markdown, fences, citations and marks of what was cut, or a refusal that names the least."""
    lab.write([wiki(50 + n, f"Walrus {n}", f"walrus pool {n} " * (20 + 200 * (n % 3)), "open") for n in range(9)])
    for question in ("where is the walrus pool?", "walrus", "what does walrus mean?"):
        answer = lab.call(border.ASKER, "POST", "/v1/context", json={"question": question, "max_tokens": budget})
        if answer.status_code == 422:
            assert budget < 200
            assert any(int(n) > budget for n in answer.text.replace('"', " ").split() if n.isdigit())
            continue
        bundle = Bundle.model_validate(answer.json())
        assert count_tokens(render_markdown(bundle)) <= budget
        assert bundle.budget.used <= budget


def test_the_tail_of_a_long_text_is_found(lab: Lab, embedder: Embedder) -> None:
    """C069: no chunk is longer than the model reads, so nothing of it is cut off unseen."""
    filler = "The pump room is cleaned on Mondays and its log is kept by the shift that leaves. " * 45
    assert embedder.count_tokens(filler) > 2 * embedder.window
    lab.write([wiki(90, "Pump room", f"{filler}\n\nThe spare impeller is in locker 42.", "open")])
    with lab.ingest.connection() as connection:
        rows = connection.execute("SELECT embedded_text FROM chunks WHERE uri LIKE '%/pages/90'").fetchall()
    assert len(rows) > 2
    assert all(embedder.count_tokens(r["embedded_text"]) <= embedder.window for r in rows)
    assert lab.ask(border.ASKER, "spare impeller locker")["evidence"][0]["title"] == "Pump room"
