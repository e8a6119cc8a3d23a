"""Random companies for non-interference: rules with gates, denies and cuts, nested groups, channels, labels, and texts
that share words, abbreviations, links, names, near duplicates and supersessions across what anybody may read."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

from core.authority import Authority
from core.items import Item, Link, Part, PersonRef, Role
from tests.sandbox.small import person
from tests.support import border
from tests.support.laboratory import LABELS, Lab, days_ago
from tests.support.plain_access import PlainAccess, Rule

PEOPLE: dict[str, Any] = {
    **{f"p{n}": person(f"Person{n} Of{n}", manager=f"p{(n + 1) % 6}") for n in range(6)},
    "gone": person("Gone Away", left="2026-01-31"),
    "guest": person("Guest Here", kind="guest"),
}
ASKERS = ("p0", "p1", "p2", "guest")
_SPACES = ("alpha", "beta", "gamma", "delta", "chat")
_SHARED_WORDS = """
settle invoice harbor window partner ledger refund batch retry limit gateway tariff berth pilot lock crane gauge buoy
quay tide
"""
_WORDS = _SHARED_WORDS.split()
_TERMS = {"SLA": ("service level agreement", "slow lane arrival"), "TTL": ("time to live", "tariff table lookup")}
_ROLES = (Role.WROTE, Role.EDITED, Role.OWNS, Role.VALIDATED, Role.CLOSED, Role.ASSIGNED, Role.DECIDED, Role.ANSWERED)


def random_access(chance: Random) -> PlainAccess:
    """Rules, groups in each other, and who has left."""
    names = [f"g{n}" for n in range(chance.randrange(2, 5))]
    groups = {
        name: [*chance.sample(sorted(PEOPLE), chance.randrange(1, 5)), *_maybe(chance, f"group:{chance.choice(names)}")]
        for name in names
    }
    whom = [*PEOPLE, *(f"group:{name}" for name in names for _ in range(3))]
    rules = {space: _rule(chance, whom) for space in _SPACES}
    # Somebody reads something in most companies, or nothing would be compared.
    rules[chance.choice(_SPACES)] = [[{"allow": [*ASKERS, "p3"]}]]
    return PlainAccess(rules=rules, groups=groups, left=frozenset({"gone"}))


def _rule(chance: Random, whom: list[str]) -> Rule:
    def layer() -> dict[str, list[str]]:
        return {
            "allow": chance.sample(whom, chance.randrange(1, 5)),
            "deny": chance.sample(whom, chance.choice((0, 0, 0, 1))),
        }

    return [[layer() for _ in range(chance.randrange(1, 4))] for _ in range(chance.choice((1, 1, 1, 2)))]


def _maybe(chance: Random, *things: Any) -> list[Any]:
    return list(things) if chance.random() < 0.5 else []


def random_items(chance: Random, lab: Lab, number: int = 26) -> list[Item]:
    """So many items, in random spaces, that speak of each other."""
    made: list[Item] = []
    titles = [" ".join(chance.sample(_WORDS, 2)).capitalize() for _ in range(9)]
    for n in range(number):
        made.append(_varied(chance, lab, _new(chance, n, chance.choice(titles), _text(chance, made)), made, titles))
    return made


def _new(chance: Random, n: int, title: str, text: str) -> Item:
    space = chance.choice(_SPACES)
    match chance.randrange(4) if space != "chat" else 4:
        case 0:
            return border.work_item(n, title, text, space, state=chance.choice(("New", "Active", "Closed")))
        case 1:
            name = title.lower().replace(" ", "_")
            return border.file(f"{space}/{n}/{name}.py", f"def {name}():\n    return '{text[:60]}'\n", space)
        case 4:
            said = chance.choice(("", "Decision: ", "What about it? "))
            return border.thread(str(n), f"{said}{title}", f"{said}{text}", space, days_ago(chance.randrange(1, 60)))
        case _:
            return border.wiki(n, title, text, space)


def _text(chance: Random, before: list[Item]) -> str:
    if before and chance.random() < 0.35:
        text = chance.choice(before).parts[0].text  # a near duplicate, or an exact one
        return text if chance.random() < 0.5 else f"{text} {chance.choice(_WORDS)}"
    sentences = [" ".join(chance.choices(_WORDS, k=chance.randrange(4, 12))).capitalize() for _ in range(3)]
    if chance.random() < 0.4:
        term = chance.choice(sorted(_TERMS))
        sentences.append(f"{term} stands for {chance.choice(_TERMS[term])}")
    if chance.random() < 0.15:
        sentences.append(f"From now on we {chance.choice(_WORDS)} instead of {chance.choice(_WORDS)}")
    return ". ".join(sentences) + "."


def _varied(chance: Random, lab: Lab, item: Item, before: list[Item], titles: list[str]) -> Item:
    people = [*PEOPLE]
    more: dict[str, Any] = {
        "created_at": item.created_at if item.uri.startswith("ctx://teams") else days_ago(chance.randrange(5, 700)),
        "modified_at": days_ago(chance.randrange(0, 5)),
        "contributions": tuple(
            border.did(lab, chance.choice(people), chance.choice(_ROLES), chance.randrange(300))
            for _ in range(chance.randrange(4))
        ),
        "label": chance.choice((None, None, *LABELS)),
        "authority": chance.choice(tuple(Authority)),
    }
    if chance.random() < 0.5:
        who = chance.choice(people)
        more["author"] = PersonRef(str(PEOPLE[who]["name"]), lab.who(who))
    if before and chance.random() < 0.6:
        ends = chance.sample(before, min(len(before), chance.randrange(1, 4)))
        more["links"] = tuple(Link(to=x.uri, rel=chance.choice(("mentions", "related"))) for x in ends)
    if before and chance.random() < 0.2:
        more["deprecated"] = True
        more["replaced_by"] = (chance.choice((chance.choice(titles), chance.choice(before).uri)),)
    if chance.random() < 0.2:
        more["validated_at"] = days_ago(chance.randrange(400))
    if chance.random() < 0.3:
        comment = Part(
            uri=f"{item.uri}/comments/1", text=_text(chance, before), author=more.get("author"), at=days_ago(2)
        )
        more["parts"] = (*item.parts, comment) if "/work-items/" in item.uri else item.parts
    return replace(item, **more)


def random_questions(chance: Random, items: list[Item]) -> list[dict[str, Any]]:
    """Bodies of questions: words, names, terms, people, the past, with a focus on something, at some size."""

    def words(n: int) -> str:
        return " ".join(chance.sample(_WORDS, n))

    told: list[dict[str, Any]] = [
        {"question": f"How do we {words(3)}?"},
        {"question": f"what does {chance.choice(sorted(_TERMS))} mean?"},
        {"question": f"who knows about {words(2)}?"},
        {"question": f"what was decided on {words(2)} last month?"},
        {"question": chance.choice(items).title},
        {"question": f"what is this, and {words(2)}?", "focus": {"item": chance.choice(items).uri}},
        {"question": f"{words(2)}", "as_of": days_ago(chance.randrange(300)).isoformat()},
        {"question": f"what does {chance.choice(_TERMS['SLA'])} need?", "max_tokens": chance.choice((600, 1500, 9000))},
    ]
    return chance.sample(told, 4)
