"""Spaces: the names by which an administrator says what an application may be told of.

A space is `KIND:NAME`. What a scope is called is read from the scope itself, so the same words serve a policy in the
settings and a rule in the record. Names are compared without case; a name that no scope has opens nothing.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from typing import Final, NewType

Space = NewType("Space", str)

# Each kind, and what it names.
KINDS: Final[Mapping[str, str]] = {
    "source": "everything of a connector: azure_devops or teams",
    "kind": "every scope of one kind: area, repo, wiki, standard channel, private channel, shared channel",
    "project": "a project of Azure DevOps, by name or id",
    "team": "a team, by name or id",
    "scope": "one scope, by its id or name: a repo, a wiki, an area, a channel",
}

# Attributes of scopes that hold the name or the id of what they lie in, by kind of space.
_ATTRIBUTES: Final[Mapping[str, tuple[str, ...]]] = {
    "project": ("project", "project_id"),
    "team": ("team", "team_id"),
}


def parse_space(text: str) -> Space:
    """Return the canonical form of `text`; parse_space(parse_space(x)) == parse_space(x).

    Raises ValueError where it names no kind that exists, or nothing.
    """
    kind, separator, name = text.strip().partition(":")
    kind, name = kind.strip().casefold(), name.strip()
    if not separator or kind not in KINDS or not name:
        raise ValueError(f"not a space: {text!r}. Write KIND:NAME, with a kind among {', '.join(KINDS)}")
    return _space(kind, name)


def spaces_of(*, scope: str, source: str, kind: str, name: str, attributes: Mapping[str, str]) -> frozenset[Space]:
    """Return every space that a scope lies in."""
    found = {_space("scope", scope), _space("scope", name), _space("source", source), _space("kind", kind)}
    for space, keys in _ATTRIBUTES.items():
        found |= {_space(space, attributes[key]) for key in keys if attributes.get(key)}
    return frozenset(found)


def _space(kind: str, name: str) -> Space:
    folded = unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())
    return Space(f"{kind}:{' '.join(folded.split())}")
