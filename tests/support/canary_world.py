"""A world whose every item holds words of its own, in all the places where text can stand: each a canary.

`planted` tells for each word whose it is: the reference of the item or container that it stands in; None where nobody
may see it any more (deleted, or said in an older version).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fixtures.sandbox.access import may_read
from fixtures.sandbox.state import SandboxState
from fixtures.sandbox.world import World, build_world
from tests.sandbox import small
from tests.sandbox.small import allow, deny, item, message, page, person, stamp

_SYLLABLES = ("ba", "de", "fi", "go", "lu", "ma", "ne", "pi", "ro", "su", "ta", "ve", "zi", "ko", "ju", "xe")


@dataclass
class Canaries:
    """Words that stand in one place each."""

    planted: dict[str, str | None] = field(default_factory=dict)

    def word(self, of: str | None) -> str:
        """A word that nothing else holds, planted in `of`."""
        n = len(self.planted)
        made = f"qua{_SYLLABLES[n % 16]}{_SYLLABLES[n // 16 % 16]}{_SYLLABLES[(n * 7 + 3) % 16]}wyx"
        assert made not in self.planted
        self.planted[made] = of
        return made

    def hidden_from(self, state: SandboxState, who: str) -> set[str]:
        """The words that stand only where a person may not read."""
        return {word for word, of in self.planted.items() if of is None or not may_read(state, who, of)}


def canary_world() -> tuple[World, Canaries]:
    """The world: for ben, cat and gil some of everything is hidden; ann reads what anybody may."""
    c = Canaries()
    shared = "Harbor invoices are settled weekly, in the settlement window."
    board = f"Board {c.word('channel:Core/Board')}"
    zed = f"Zed {c.word('work_item:3')} Quill"

    def text(of: str | None) -> str:
        word = c.word(of)
        return (
            f"{shared} {word}. SLA stands for secret {word} arrival. {word[:4].upper()}{len(c.planted)} = {word} term."
        )

    one: Any = {
        "acl": allow("group:staff"),
        "areas": {"/Cards": {"acl": deny("ben")}, "/Closed": {"inherit": False, "acl": allow("ann")}},
        "work_items": [
            item(1, title=f"Settle {c.word('work_item:1')}", description=text("work_item:1"),
                 comments=[stamp("ben") | {"text": f"It {c.word('work_item:1')}"},
                           stamp("ben") | {"text": f"Oops {c.word(None)}", "deleted": True}],
                 links=[{"rel": "related", "to": "work_item:2"}, {"rel": "related", "to": "work_item:3"}]),
            item(2, "/Cards", title=f"Settle {c.word('work_item:2')}", description=text("work_item:2"),
                 tags=[c.word("work_item:2")], comments=[stamp("ann") | {"text": f"So {c.word('work_item:2')}"}],
                 links=[{"rel": "related", "to": "work_item:1"}]),
            item(3, "/Closed", title=f"Settle {c.word('work_item:3')}", description=text("work_item:3"),
                 created=stamp("zed"), assigned="zed", label=f"Velvet {c.word('work_item:3')}",
                 fields={"Custom.Risk": c.word("work_item:3")}, links=[{"rel": "related", "to": "work_item:1"}]),
            item(4, title=f"Settle {c.word(None)}", description=text(None), deleted=stamp()),
        ],
        "wikis": {
            "Guide": {"pages": {
                "Start": {"revisions": [stamp() | {"content": text(None)},
                                        stamp("ben") | {"content": f"# Start\n\n{text('wiki:Guide/Start')}"}]},
                "Gone": page(text(None), deleted=stamp()),
            }},
            "Vault": {"acl": [*allow("ann", "zed"), *deny("group:ops")], "inherit": False, "pages": {
                f"Settle {c.word('wiki:Vault')}": page(f"# {c.word('wiki:Vault')}\n{text('wiki:Vault')}", owner="zed"),
            }},
        },
        "repos": {
            "engine": {"commits": [
                stamp() | {"key": "e1", "message": "Begin", "files": {"settle.py": f"# {c.word(None)}\nx = 1\n"}},
                stamp() | {"key": "e2", "message": f"Settle {c.word('repo:engine')}",
                           "files": {"settle.py": f"# {c.word('repo:engine')}\ndef settle():\n    return 2\n"}},
            ]},
            "vault": {
                "acl": allow("ann"), "inherit": False,
                "commits": [stamp("zed") | {
                    "key": "v1", "message": f"Settle {c.word('repo:vault')}",
                    "files": {f"settle/{c.word('repo:vault')}.md": f"# {c.word('repo:vault')}\n\n{text('repo:vault')}"},
                }],
                "pull_requests": [{
                    "id": 1, "title": f"Settle {c.word('repo:vault')}", "description": text("repo:vault"),
                    "created": stamp("zed"), "source": c.word("repo:vault"), "target": "main",
                    "threads": [{"comments": [stamp("ann") | {"text": f"Why {c.word('repo:vault')}?"}]}],
                }],
            },
        },
    }  # fmt: skip
    talk: Any = {
        "Core": {
            "members": ["ann", "ben", "cat"],
            "channels": {
                "General": {"messages": [
                    message("g1", f"How do we settle? {c.word('channel:Core/General')}",
                            replies=[message("g2", text("channel:Core/General"), "ben"),
                                     message("g3", text(None), "ben", deleted=small.AT)]),
                ]},
                "Board": {"kind": "private", "members": ["ann", "zed"], "description": c.word("channel:Core/Board"),
                          "messages": [message("p1", f"{board} {text('channel:Core/Board')}", "zed",
                                               subject=f"Decision {c.word('channel:Core/Board')}")]},
            },
        },
        "Far": {"members": ["ann"], "description": c.word("team:Far"), "channels": {
            "General": {"messages": [message("f1", text("channel:Far/General"))]},
        }},
    }  # fmt: skip
    labels = [*dict.fromkeys(x["label"] for x in one["work_items"] if "label" in x)]
    data = {
        "format": 1,
        "name": "canaries",
        "now": small.NOW,
        "tenant_id": small.TENANT,
        "labels": ["Public", *labels],
        "people": {**small.PEOPLE, "zed": person(zed)},
        "groups": {
            **small.GROUPS,
            "few": {"name": f"Few {c.word('channel:Far/General')}", "members": ["ann"]},
        },
        "azure_devops": {"organization": "Small", "projects": {"P": one}},
        "teams": talk,
    }
    return build_world(data), c
