"""A world in which each access case has a project of its own."""

from __future__ import annotations

from typing import Any

from tests.sandbox.small import NOW, TENANT, allow, commit, deny, item, page, person, stamp

CANARY = "zyxquark-canary"
IRIS_OID = "A0A0A0A0-0000-4000-8000-00000000000A"

PEOPLE: dict[str, Any] = {
    "iris": person("Iris Okonjo", oid=IRIS_OID),
    "teo": person("Teo Lund"),
    "adm": person("Ada Admin"),
    "lena": person("Lena Guest", kind="guest"),
    "stake": person("Stan Stake", access_level="stakeholder"),
    "new": person("Nia New"),
}


def ado(name: str, *members: str, project: str | None = None) -> dict[str, Any]:
    """A group of Azure DevOps itself."""
    return {"name": name, "kind": "azure_devops", "members": list(members)} | ({"project": project} if project else {})


GROUPS: dict[str, Any] = {
    "audit": {"name": "Audit", "members": ["iris"]},
    "core": {"name": "Core", "members": ["teo"]},
    "contrib": ado("Contributors", "teo", project="Fjordline"),
    "payroll": ado("Payroll", "iris", project="Fjordline"),
    "release": ado("Release", "iris", "teo"),
    "blocked": ado("Blocked", "iris"),
    "pca": ado("Project Collection Administrators", "adm"),
    "no-code": ado("No code", "adm"),
    "valid": ado("Project Valid Users", "iris", project="Valid"),
    "contrib-one": ado("Contributors", "iris", project="Names"),
    "contrib-two": ado("Contributors", "teo", project="Names two"),
    "entra-only": {"name": "Crane partners", "members": ["new"]},
    "through": ado("Readers", "group:entra-only", project="Entra"),
}
EVENTS: list[dict[str, Any]] = [
    {"id": "basic", "after": "1m", "set_access_level": {"who": "stake", "access_level": "basic"}},
    {"id": "renamed", "after": "2m", "rename": {"what": "group:contrib-one", "to": "Harbour Contributors"}},
]


def repo(name: str, **more: Any) -> dict[str, Any]:
    """A repo with one file and one pull request, cut from what lies above it."""
    pull = {"id": 1, "title": "Lift", "created": stamp("adm"), "source": "x"}
    made = {"commits": [stamp("adm") | commit("k", crane_py="lift()") | {"by": "adm"}], "pull_requests": [pull]}
    return {name: made | {"inherit": False} | more}


def wi(number: int, area: str = "/", **more: Any) -> dict[str, Any]:
    """A work item by somebody of this world."""
    return item(number, area, **more) | {"created": stamp("adm")}


def cut(*names: str) -> dict[str, Any]:
    """A root area that lets these in, and takes nothing from the project."""
    return {"/": {"inherit": False, "acl": allow(*names)}}


OPEN = allow("group:everyone", "lena")
PROJECTS: dict[str, Any] = {
    "Audit": {
        "acl": OPEN,
        "repos": repo("repo-a", acl=allow("group:audit")) | repo("repo-b", acl=allow("group:core")),
    },
    "Fjordline": {
        "acl": OPEN,
        "areas": {
            "/": {"acl": allow("group:contrib")},
            "/Payroll": {"inherit": False, "acl": allow("group:payroll")},
            "/Payroll/Bonus": {"acl": []},
        },
        "work_items": [wi(4101, "/Payroll/Bonus", title="Bonus table 2031")],
    },
    "Deny": {"acl": OPEN, "repos": repo("repo-deny", acl=[*deny("group:blocked"), *allow("group:release")])},
    "Admins": {"acl": OPEN, "repos": repo("repo-adm", acl=[*allow("group:pca"), *deny("group:no-code")])},
    "Levels": {
        "acl": OPEN,
        "repos": repo("repo-stake", acl=allow("stake")),
        "areas": {"/": {"acl": allow("stake")}},
        "work_items": [wi(12)],
    },
    "Valid": {"acl": OPEN, "repos": repo("repo-d", acl=allow("group:valid"))},
    "Names": {"acl": OPEN, "areas": cut("group:contrib-one"), "work_items": [wi(18)]},
    "Names two": {"acl": OPEN, "areas": cut("group:contrib-two"), "work_items": [wi(19)]},
    "Entra": {
        "acl": OPEN,
        "repos": repo("repo-direct", acl=allow("group:entra-only")) | repo("repo-nested", acl=allow("group:through")),
    },
    "Harbour": {
        "acl": OPEN,
        "areas": {"/": {"inherit": False, "acl": allow("iris")}, "/Open": {"acl": OPEN}},
        "work_items": [
            wi(9, title="Lamp schedule", description=f"<p>The lamp schedule of the quay, {CANARY}.</p>"),
            wi(10, "/Open", title="Quay paint", description="<p>The quay is painted in spring.</p>"),
        ],
    },
    "Merger Walrus": {
        "acl": allow("iris"),
        "work_items": [wi(11, title="Merger of the two yards (MW)", description="<p>MW means Merger Walrus.</p>")],
        "wikis": {"Walrus wiki": {"pages": {"Who": page("Nobody may know.", owner="iris")}}},
        "repos": repo("walrus-repo") | {},
    },
}
for _wiki in PROJECTS["Merger Walrus"]["wikis"].values():
    for _page in _wiki["pages"].values():
        _page["revisions"][0]["by"] = "iris"
PROJECTS["Merger Walrus"]["repos"]["walrus-repo"]["inherit"] = True


def world(**more: Any) -> dict[str, Any]:
    """The world of these cases."""
    return {
        "format": 1,
        "name": "cases",
        "now": NOW,
        "tenant_id": TENANT,
        "people": PEOPLE,
        "groups": GROUPS,
        "azure_devops": {"organization": "NovaRuud", "projects": PROJECTS},
        "events": EVENTS,
    } | more
