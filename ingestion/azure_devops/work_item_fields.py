"""Turns one work item as the service gives it, with its comments and updates, into an Item."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from core import uris
from core.access import ScopeId
from core.items import Contribution, Item, ItemKind, Link, Part, PersonRef, Role, Source
from ingestion.azure_devops import authority
from ingestion.azure_devops.catalogue import Area, Catalogue
from ingestion.azure_devops.identities import Identities
from ingestion.azure_devops.links import merged, stated_links, target_of
from ingestion.azure_devops.shapes import artifact, mapping, mentioned, text_of, web, when, wiki_artifact
from ingestion.azure_devops.texts import markdown_of, scalar
from ingestion.azure_devops.work_item_history import StateChange, history_contributions, history_part, state_changes

DESCRIPTION = "System.Description"
# Long texts of the standard processes, with the heading under which each stands; others are told by their type.
_LONG = {
    DESCRIPTION: "",
    "Microsoft.VSTS.TCM.ReproSteps": "Repro steps",
    "Microsoft.VSTS.Common.AcceptanceCriteria": "Acceptance criteria",
    "Microsoft.VSTS.TCM.SystemInfo": "System info",
    "Microsoft.VSTS.Common.Resolution": "Resolution",
    "Microsoft.VSTS.CMMI.ProposedFix": "Proposed fix",
    "Microsoft.VSTS.CMMI.Symptom": "Symptom",
}
_ATTRIBUTES = {
    "System.WorkItemType": "type",
    "System.Reason": "reason",
    "System.IterationPath": "iteration",
    "Microsoft.VSTS.Common.Priority": "priority",
    "Microsoft.VSTS.Common.Severity": "severity",
    "Microsoft.VSTS.Common.ResolvedReason": "resolved_reason",
}
_RELS = {
    "system.linktypes.hierarchy-forward": "child",
    "system.linktypes.hierarchy-reverse": "parent",
    "system.linktypes.related": "related",
    "system.linktypes.dependency-forward": "successor",
    "system.linktypes.dependency-reverse": "predecessor",
    "system.linktypes.duplicate-forward": "duplicate",
    "system.linktypes.duplicate-reverse": "duplicate_of",
    "hyperlink": "hyperlink",
}
# Fields of the service's own book-keeping, which say nothing to people.
_NOISE = re.compile(r"^(?:System\.|WEF_|Microsoft\.VSTS\.(?:Common\.(?:StackRank|BacklogPriority)|Scheduling\.))")


def item_of(
    row: Mapping[str, Any],
    comments: Iterable[Mapping[str, Any]],
    updates: Iterable[Mapping[str, Any]],
    *,
    area: Area,
    scope: ScopeId,
    catalogue: Catalogue,
    identities: Identities,
    organization: str,
    label_field: str,
    long_fields: frozenset[str],
    page_at: Callable[[str, str], str | None],
) -> Item:
    """`page_at` gives the address of a wiki page by wiki id and path.

    Raises KeyError or ValueError where the answer lacks what every work item has.
    """
    number, fields = int(row["id"]), mapping(row["fields"])
    uri = uris.work_item(catalogue.organization, number)
    created, changed = when(fields.get("System.CreatedDate")), when(fields.get("System.ChangedDate"))
    author = identities.person(fields.get("System.CreatedBy"))
    texts = _texts(fields, mapping(row.get("multilineFieldsFormat")), long_fields, label_field)
    parts = [
        Part(
            uri=uri,
            text=text,
            heading=(heading,) if heading else (),
            author=author,
            at=created if not heading else changed,
        )
        for heading, text in texts
    ]
    changes = state_changes(updates, identities)
    parts += history_part(changes, uri)
    # A deleted comment keeps its text in the answer.
    comments = [comment for comment in comments if not comment.get("isDeleted")]
    said = [p for p in (_comment(c, number, catalogue, identities) for c in comments) if p is not None]
    parts += sorted(said, key=lambda p: (p.at.timestamp() if p.at else 0.0, p.uri))
    project = str(fields.get("System.TeamProject") or area.project.name)
    return Item(
        uri=uri,
        source=Source.WORK_ITEMS,
        kind=ItemKind.WORK_ITEM,
        scope=scope,
        title=text_of(fields.get("System.Title")).strip(),
        url=web(organization, project, "_workitems", "edit", str(number)),
        parts=tuple(parts),
        version=str(row.get("rev") or fields.get("System.Rev") or ""),
        created_at=created,
        modified_at=changed or created,
        author=author,
        authority=authority.of_work_item(),
        state=scalar(fields.get("System.State")),
        container=area.path.replace("\\", "/"),
        number=str(number),
        label=scalar(fields.get(label_field)) or area.project.label,
        contributions=(
            *_contributions(fields, said, changes, author, identities),
            *identities.mentions(mentions_in(fields, comments)),
        ),
        links=merged(
            _relations(row.get("relations") or [], catalogue, page_at),
            stated_links("\n".join(p.text for p in parts), catalogue),
            own=uri,
        ),
        attributes=_attributes(fields),
    )


def mentions_in(fields: Mapping[str, Any], comments: Iterable[Mapping[str, Any]] = ()) -> list[str]:
    """Storage keys of the people whom an item's texts and comments mention."""
    texts = [v for name, v in sorted(fields.items()) if isinstance(v, str) and name != "System.History"]
    return [key for text in (*texts, *(text_of(c.get("text")) for c in comments)) for key in mentioned(text)]


def _texts(
    fields: Mapping[str, Any], formats: Mapping[str, Any], long_fields: frozenset[str], label_field: str
) -> list[tuple[str, str]]:
    found, short = [], []
    for name in sorted(fields, key=lambda n: (n != DESCRIPTION, n)):
        value = fields[name]
        if name in formats or name in _LONG or name in long_fields:
            text = markdown_of(value, str(formats.get(name) or "html"))
            if text and name != "System.History":
                found.append((_LONG.get(name, _shown(name)), text))
        elif name not in _ATTRIBUTES and name != label_field and not _NOISE.match(name):
            told = scalar(value)
            if told and not name.startswith("Microsoft.VSTS.Common."):
                short.append(f"- {_shown(name)}: {told}")
    return [*found, *([("Fields", "\n".join(short))] if short else [])]


def _shown(name: str) -> str:
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name.rpartition(".")[2]).replace("_", " ").strip()
    return words[:1].upper() + words[1:]


def _comment(row: Mapping[str, Any], number: int, catalogue: Catalogue, identities: Identities) -> Part | None:
    key = row.get("id") or row["commentId"]
    text = markdown_of(row.get("text"), str(row.get("format") or "html"))
    if not text:
        return None
    return Part(
        uri=uris.work_item_comment(catalogue.organization, number, int(key)),
        text=text,
        author=identities.person(row.get("createdBy")),
        at=when(row.get("createdDate")),
    )


def _contributions(
    fields: Mapping[str, Any],
    comments: list[Part],
    changes: tuple[StateChange, ...],
    author: PersonRef | None,
    identities: Identities,
) -> tuple[Contribution, ...]:
    found: list[Contribution] = []

    def add(person: PersonRef | None, role: Role, at: Any, note: str = "") -> None:
        if person is not None:
            found.append(Contribution(person=person, role=role, at=when(at), note=note))

    add(author, Role.WROTE, fields.get("System.CreatedDate"))
    add(identities.person(fields.get("System.AssignedTo")), Role.ASSIGNED, fields.get("System.ChangedDate"))
    closed = fields.get("Microsoft.VSTS.Common.ClosedDate")
    history = history_contributions(changes)
    closer = identities.person(fields.get("Microsoft.VSTS.Common.ClosedBy"))
    if not any(c.role is Role.CLOSED and c.person == closer for c in history):
        add(closer, Role.CLOSED, closed)
    found += history
    if fields.get("System.ChangedDate") not in (None, fields.get("System.CreatedDate"), closed):
        add(identities.person(fields.get("System.ChangedBy")), Role.EDITED, fields.get("System.ChangedDate"))
    latest: dict[tuple[str, str | None], Part] = {}
    for part in comments:
        if part.author is not None:
            latest[part.author.name, part.author.principal] = part
    found += [
        Contribution(person=part.author, role=Role.COMMENTED, at=part.at)
        for part in latest.values()
        if part.author is not None
    ]
    return tuple(found)


def _relations(
    rows: Iterable[Mapping[str, Any]], catalogue: Catalogue, page_at: Callable[[str, str], str | None]
) -> tuple[Link, ...]:
    found = []
    for row in rows:
        kind, url = str(row.get("rel", "")), str(row.get("url", ""))
        if not url or kind == "AttachedFile":
            continue
        # The address only: a relation can point at what a reader of this item may not see, so no title, no comment.
        to = artifact(url, catalogue.organization) or target_of(url, catalogue)
        if to is None and (page := wiki_artifact(url)) is not None:
            to = page_at(*page)
        if to is None and not url.lower().startswith(("http://", "https://")):
            continue
        name = str(mapping(row.get("attributes")).get("name") or "")
        rel = _RELS.get(kind.lower()) or re.sub(r"\W+", "_", (name or kind.rpartition(".")[2]).lower()).strip("_")
        found.append(Link(to=to or url, rel=rel or "related"))
    return tuple(found)


def _attributes(fields: Mapping[str, Any]) -> dict[str, str]:
    found = {key: scalar(fields.get(name)) for name, key in _ATTRIBUTES.items()}
    found["project"] = scalar(fields.get("System.TeamProject"))
    found["tags"] = "; ".join(_tags(fields.get("System.Tags")))
    return {key: value for key, value in found.items() if value}


def _tags(value: Any) -> list[str]:
    """The tags, each once in the order given, whether they come joined, as a list or as objects."""
    rows = value if isinstance(value, list) else text_of(value).split(";")
    found: dict[str, str] = {}
    for row in rows:
        name = text_of(row.get("name") if isinstance(row, Mapping) else row).strip()
        if name:
            found.setdefault(name.casefold(), name)
    return list(found.values())
