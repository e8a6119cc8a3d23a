"""A small organization in which some things are secret, and an engine that confirms those at their source."""

from __future__ import annotations

from typing import Any

from core.guards import LateBindingSettings
from fixtures.sandbox.oidc import ADO_AUDIENCE, API_ID, API_SECRET, GRAPH_AUDIENCE
from fixtures.sandbox.server import SandboxServer
from fixtures.sandbox.world_models import World
from tests.sandbox.small import allow, commit, item, message, page, world

Data = dict[str, Any]
LABELS = ["Public", "Internal", "Secret", "Sealed"]
QUESTION = "What was decided about the quay crane tariff?"

# Ben loses what is secret, in every system; what is not labelled, he loses as well.
BOARD_IS_SHUT: list[Data] = [
    {"id": "area-shut", "after": "1h", "set_acl": {"on": "area:P/Board", "acl": allow("ann")}},
    {"id": "wiki-shut", "after": "1h", "set_acl": {"on": "wiki:Board", "acl": allow("ann")}},
    {"id": "repo-shut", "after": "1h", "set_acl": {"on": "repo:vault", "acl": allow("ann")}},
    {"id": "channel-shut", "after": "1h", "remove_member": {"channel": "Harbour/Board", "who": "ben"}},
    {"id": "open-shut", "after": "1h", "set_acl": {"on": "area:P/Open", "acl": allow("ann"), "inherit": False}},
]


BEN_LEAVES: Data = {"id": "ben-leaves", "after": "1h", "disable_person": {"who": "ben"}}


def harbour(*, secret: bool = True, events: list[Data] | None = None, sealed: bool = False, more: int = 0) -> World:
    """Ann and Ben may read all of it. `secret` False: as if nothing secret had ever been written. `sealed`: things
    that may not be stored at all; `more`: so many further secret work items."""

    def only_if(wanted: bool, value: Data) -> Data:
        return value if wanted else {}

    project: Data = {
        "acl": allow("ann", "ben"),
        "areas": {"/Open": {}, "/Board": {"inherit": False, "acl": allow("ann", "ben")}},
        "work_items": [
            item(1, "/Open", title="Publish the quay crane tariff", description="The quay crane tariff is public."),
            item(2, "/Open", title="Berth plan", label="Internal", description="Quay crane hours by berth."),
            *(
                [
                    item(
                        3,
                        "/Board",
                        title="Quay crane tariff for Havbris",
                        label="Secret",
                        description="The quay crane tariff falls by 12 percent. QCT (Quay Crane Tariff) is secret.",
                        assigned="ben",
                        links=[{"rel": "related", "to": "work_item:1"}],
                    )
                ]
                if secret
                else []
            ),
            *[
                item(100 + n, "/Board", title=f"Ledger {n}", label="Secret", description=f"Column {n} of the ledger.")
                for n in range(more)
            ],
            *([item(9, "/Open", title="Sealed", label="Sealed", description="sealedcanary")] if sealed else []),
        ],
        "wikis": {
            "Guide": {"pages": {"Cranes": page("# Cranes\n\nA quay crane tariff is paid by the hour.")}},
            **only_if(
                secret,
                {
                    "Board": {
                        "acl": allow("ann", "ben"),
                        "inherit": False,
                        "pages": {
                            "Tariff": page(
                                "# Tariff\n\nThe quay crane tariff was decided by the board.", label="Secret"
                            )
                        },
                    }
                },
            ),
        },
        "repos": {
            "tools": {"commits": [commit("c1", tariff_md="# Quay crane tariff\n\nHow the tariff is worked out.\n")]},
            **only_if(
                secret,
                {
                    "vault": {
                        "label": "Secret",
                        "acl": allow("ann", "ben"),
                        "inherit": False,
                        "commits": [commit("v1", deal_md="# Deal\n\nThe quay crane tariff of Havbris.\n")],
                    }
                },
            ),
        },
    }
    channels: Data = {
        "General": {"messages": [message("g1", "Where is the quay crane tariff?", "ben")]},
        **only_if(
            secret,
            {
                "Board": {
                    "kind": "private",
                    "label": "Secret",
                    "members": ["ann", "ben"],
                    "messages": [message("b1", "We decided the quay crane tariff: minus 12 percent.", "ben")],
                }
            },
        ),
    }
    return world(
        project,
        teams={"Harbour": {"members": ["ann", "ben"], "channels": channels}},
        labels=LABELS,
        **({"events": [e for e in events if secret or e["id"] in ("open-shut", "ben-leaves")]} if events else {}),
    )


def on_behalf_of(sandbox: SandboxServer, **odd: Any) -> LateBindingSettings:
    """Settings by which the sandbox's services are asked as the person."""
    given: Data = {
        "label": "Secret",
        "tenant": str(sandbox.state.world.tenant_id),
        "client_id": API_ID,
        "client_secret": API_SECRET,
        "authority": f"{sandbox.base_url}/oidc",
        "azure_devops_url": sandbox.ado_url,
        "azure_devops_scope": f"{ADO_AUDIENCE}/.default",
        "graph_url": sandbox.graph_url,
        "graph_scope": f"{GRAPH_AUDIENCE}/.default",
        "deadline": 5.0,
        "pace": 0.01,
    }
    return LateBindingSettings.model_validate(given | odd)
