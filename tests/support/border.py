"""A small company at a border: for one asker (ben), every way in which an item can be hidden, next to readable ones
that it would change if it were seen: shared words, links, abbreviations, near duplicates, names, supersessions.

What is hidden holds words that stand nowhere else (`hidden_words`), in title, text, short form, author and address.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from core import uris
from core.access import ScopeId
from core.items import Contribution, Item, ItemKind, Link, Part, PersonRef, Role, Source, TextFormat
from graph.supersession import Supersession, SupersessionStore
from tests.sandbox.small import person
from tests.support.laboratory import Lab, days_ago
from tests.support.plain_access import PlainAccess, Rule

ASKER, OTHER, NOBODY, LEAVER = "ben", "ann", "gil", "eve"
PEOPLE: dict[str, Any] = {
    "ann": person("Ann Arbor"),
    "ben": person("Ben Baker", manager="ann"),
    "cat": person("Cat Castle", access_level="stakeholder"),
    "eve": person("Eve Eastwood", left="2026-01-31"),
    "gil": person("Gil Guest", kind="guest"),
    # Programs: one with a policy that lists its spaces, one without.
    "bot": person("Build Bot", kind="service"),
    "stray": person("Stray Bot", kind="service"),
    # Whoever did only what ben may not read.
    "zed": person("Zedekiah Quillfeather"),
}
SEALED = "Sealed page"
PROGRAM, STRAY = "bot", "stray"
# What its policy lists; of that it may be told what it was granted as well.
POLICY = ("open", "private", "denied")
OPEN_RULE: Rule = [[{"allow": ["group:staff", PROGRAM, STRAY]}]]
ACCESS = PlainAccess(
    rules={
        "open": OPEN_RULE,
        "chat": OPEN_RULE,
        # Far away somebody is denied, but the nearest layer that names them lets them in.
        "nearest": [[{"allow": ["group:inner"]}, {"deny": ["ben"], "allow": ["group:staff"]}]],
        # Hidden from ben, each in its own way. Most name him in an allow somewhere, so that the index would match.
        "denied": [[{"allow": ["group:staff"], "deny": ["ben"]}]],
        "denied-group": [[{"allow": ["group:staff"], "deny": ["group:inner"]}]],
        "gated": [[{"allow": ["group:staff"]}], [{"allow": ["ann", "zed"]}]],
        "cut-near": [[{"deny": ["group:inner"]}, {"allow": ["group:staff"]}]],
        "private": [[{"allow": ["ann"]}]],
        "ruleless": [],
    },
    groups={
        "staff": ["ann", "cat", "zed", "group:inner"],
        "inner": ["ben", "eve", "group:outer"],
        "outer": ["group:inner"],
    },
    left=frozenset({"eve"}),
)
HIDING = ("denied", "denied-group", "gated", "cut-near", "private", "ruleless")
QUESTIONS = (
    "How are harbor invoices settled?",
    "What does SLA mean?",
    "who knows about the settlement of invoices?",
    "What replaces the old settlement rules?",
    "service level agreement",
    "settle.py",
    "what changed last month?",
    "decision on the settlement window",
)
_TEXT = "Harbor invoices are settled weekly, in the settlement window on Friday."


def _item(uri: str, title: str, text: str, scope: str, **more: Any) -> Item:
    values: dict[str, Any] = {
        "version": "1",
        "created_at": days_ago(200),
        "modified_at": days_ago(30),
        "parts": (Part(uri=uri, text=text),),
    }
    return Item(uri=uri, title=title, scope=ScopeId(scope), **(values | more))


def wiki(number: int, title: str, text: str, scope: str, **more: Any) -> Item:
    """A wiki page."""
    values: dict[str, Any] = {
        "source": Source.WIKIS,
        "kind": ItemKind.WIKI_PAGE,
        "url": f"https://dev.azure.com/border/P/_wiki/wikis/W/{number}",
        "container": "Guide",
    }
    return _item(uris.wiki_page("border", "w1", number), title, text, scope, **(values | more))


def work_item(number: int, title: str, text: str, scope: str, **more: Any) -> Item:
    """A work item."""
    values: dict[str, Any] = {
        "source": Source.WORK_ITEMS,
        "kind": ItemKind.WORK_ITEM,
        "url": f"https://dev.azure.com/border/P/_workitems/edit/{number}",
        "state": "Closed",
        "container": "Board",
        "number": str(number),
    }
    return _item(uris.work_item("border", number), title, text, scope, **(values | more))


def file(path: str, text: str, scope: str, **more: Any) -> Item:
    """A file of a repo."""
    uri = uris.file("border", "r1", path)
    values: dict[str, Any] = {
        "source": Source.CODE,
        "kind": ItemKind.FILE,
        "url": f"https://dev.azure.com/border/P/_git/engine?path=/{path}",
        "parts": (Part(uri=uri, text=text, format=TextFormat.CODE, language="py"),),
        "container": "engine",
        "aliases": (f"engine/{path}", path, path.rpartition("/")[2]),
    }
    return _item(uri, path, text, scope, **(values | more))


def thread(root: str, title: str, text: str, scope: str, at: datetime, **more: Any) -> Item:
    """A thread of a channel."""
    uri = uris.thread("border", f"19:{scope}@thread.tacv2", root)
    values: dict[str, Any] = {
        "source": Source.TEAMS,
        "kind": ItemKind.THREAD,
        "url": f"https://teams.microsoft.com/l/message/{scope}/{root}",
        "parts": (Part(uri=uri, text=text, at=at),),
        "container": f"Crew/{scope}",
        "created_at": at,
        "modified_at": at,
    }
    return _item(uri, title, text, scope, **(values | more))


def did(lab: Lab, who: str, role: Role, days: float) -> Contribution:
    """A deed, so many days ago."""
    name = lab.sandbox.state.world.people[who].name
    return Contribution(person=PersonRef(name, lab.who(who)), role=role, at=days_ago(days))


_START, _RULES = uris.wiki_page("border", "w1", 1), uris.wiki_page("border", "w1", 3)
_OLD_FILE = uris.file("border", "r1", "old/settle.py")


def open_items(lab: Lab) -> list[Item]:
    """What ben may read."""
    hidden = [uris.wiki_page("border", "w1", 100 + n) for n in range(len(HIDING))]
    return [
        wiki(
            1, "Invoice settlement", f"{_TEXT}\n\nSLA stands for service level agreement.", "open",
            contributions=(did(lab, "cat", Role.WROTE, 100),), author=PersonRef("Cat Castle", lab.who("cat")),
            links=tuple(Link(to=u, rel="mentions") for u in (uris.work_item("border", 11), *hidden)),
        ),
        wiki(2, "Old settlement rules", "How invoices were settled.", "open", deprecated=True,
             replaced_by=("Settlement rules",)),
        wiki(3, "Settlement rules", "How invoices are settled now, by rule.", "open"),
        # Where late binding asks for it, on its source's word only.
        wiki(6, SEALED, "Sealed words on invoices.", "open", label="Secret"),
        wiki(4, "Nearest rule", "The nearest rule on invoices decides.", "nearest"),
        # Its title is asked for by itself: a keyword that is rare only among what ben may read.
        wiki(5, "Retired page", "Replaced by a page that ben may not read.", "open", deprecated=True,
             replaced_by=(hidden[0],)),
        work_item(11, "Settle the harbor invoices", "Settle them in the window.", "open",
                  contributions=(did(lab, "cat", Role.CLOSED, 20), did(lab, "ann", Role.ASSIGNED, 25))),
        file("src/settle.py", "def settle(invoice):\n    return invoice.total\n", "open",
             contributions=(did(lab, "cat", Role.WROTE, 50),)),
        file("old/settle.py", "def settle_slowly(invoice):\n    return 0\n", "open"),
        _item(
            uris.commit("border", "r1", "c0ffee" + "0" * 34), "Settle faster", "Settle invoices faster", "open",
            source=Source.CODE, kind=ItemKind.COMMIT, url="https://dev.azure.com/border/P/_git/engine/commit/c0ffee",
            container="engine",
        ),
        _item(
            uris.pull_request("border", "r1", 7), "Settle once", "Settle each invoice once.", "open",
            source=Source.PULL_REQUESTS, kind=ItemKind.PULL_REQUEST, container="engine", number="7",
            url="https://dev.azure.com/border/P/_git/engine/pullrequest/7",
        ),
        thread("2", "Settled", "All invoices of the harbor are settled.", "open", days_ago(4)),
        thread("1", "Settlement window?", "When is the settlement window of harbor invoices? On Friday.", "chat",
               days_ago(3), contributions=(did(lab, "cat", Role.ANSWERED, 3),)),
    ]  # fmt: skip


def hidden_items(lab: Lab) -> list[Item]:
    """What ben may not read, hidden in every way there is; each speaks of the same things."""
    found: list[Item] = []
    for n, scope in enumerate(HIDING):
        term, rare = f"QZ{n}X", f"zirkonit{n}"
        text = (
            f"{_TEXT} {rare}.\n\n{term} stands for quartz zenith {n} xenon.\n\nSLA stands for secret launch {rare}.\n\n"
            "SLA = service level agreement"
        )
        found += [
            wiki(100 + n, f"Settlement {rare}", text, scope, author=PersonRef(f"Author {rare}", lab.who("zed")),
                 contributions=(did(lab, "zed", Role.DECIDED, 1), did(lab, "zed", Role.OWNS, 1)),
                 links=(Link(to=_START, rel="mentions"), Link(to=_RULES, rel="mentions")), container=f"Space {rare}"),
            # A second page of that title, a page that the readable one replaces, one that replaces a readable file.
            wiki(200 + n, "Settlement rules", f"A namesake, {rare}.", scope),
            wiki(300 + n, f"Older rules {rare}", f"{_TEXT} {rare}", scope, deprecated=True,
                 replaced_by=(_RULES, "Settlement rules")),
            wiki(400 + n, f"Newest rules {rare}", f"{_TEXT} {rare}", scope, deprecated=True,
                 replaced_by=(_OLD_FILE,)),
            work_item(1000 + n, f"Settle {rare}", f"{_TEXT} {rare}", scope,
                      links=(Link(to=uris.work_item("border", 11), rel="related"),),
                      contributions=(did(lab, "zed", Role.CLOSED, 2), did(lab, "cat", Role.CLOSED, 2))),
            file(f"hidden/{rare}/settle.py", f"def settle(invoice):\n    return {rare}\n", scope,
                 contributions=(did(lab, "zed", Role.WROTE, 2),)),
            thread(f"90{n}", f"Decision {rare}", f"Decision: the settlement window moves to Monday. {rare}", scope,
                   days_ago(1), contributions=(did(lab, "zed", Role.DECIDED, 1),)),
        ]  # fmt: skip
    return found


def may_read(person: str, scope: str) -> bool:
    """Whether somebody may read what hangs on a scope: by the rules, and for a program by its policy as well."""
    return ACCESS.may_read(person, scope) and (person != STRAY) and (person != PROGRAM or scope in POLICY)


def hidden_words(items: Iterable[Item]) -> set[str]:
    """Words that stand in hidden items alone, and the addresses of these, in lower case."""
    words = {f"zirkonit{n}" for n in range(len(HIDING))} | {f"qz{n}x" for n in range(len(HIDING))}
    return words | {item.uri.lower() for item in items} | {"quillfeather", "secret launch"}


def stand_up(lab: Lab, *, hidden: bool = True) -> list[Item]:
    """Write the company into a laboratory, with or without what ben may not read; what was written."""
    lab.directory(ACCESS.containers(lab))
    lab.permissions(ACCESS.scopes(lab))
    items = open_items(lab) + (hidden_items(lab) if hidden else [])
    lab.write(items)
    if hidden:
        _mine_supersessions(lab)
    lab.rewrite_index()
    return items


def _mine_supersessions(lab: Lab) -> None:
    """What replaces what, said by an item that is neither the old nor the new: a hidden one of readable ones, and a
    readable one of hidden ones."""
    store = SupersessionStore(lab.ingest)
    unreadable, nearest = uris.wiki_page("border", "w1", 100), uris.wiki_page("border", "w1", 4)
    quote = "as zirkonit0 says"
    store.replace(unreadable, [Supersession(old_uri=_START, new_uri=_RULES, kind="mined", confidence=0.9, quote=quote)])
    store.replace(
        nearest,
        [
            Supersession(old_uri=unreadable, new_uri=_RULES, kind="mined", confidence=0.9, quote=""),
            Supersession(old_uri=_RULES, new_uri=unreadable, kind="mined", confidence=0.9, quote=""),
        ],
    )
