"""Takes apart the addresses that people paste: URLs of Azure DevOps, Teams and Grafana, repo paths, channels.

Pure: it says what an address would name. Whether that exists and may be read is the stores' business.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import SplitResult, parse_qs, quote, unquote, urlsplit

from core import uris
from core.items import Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """What to look up, most exact first: ctx:// `uri`, stored `urls`, `aliases`, or the `number` in a `source`.

    `tail` must end the address of a page found by `title`, `container` tells items of one name apart. `channel` is a
    channel's id or Team/Channel name. `detail`
    says what is meant inside the item ("panel 7", "line 12"); `panel` and `line` say it for machines.
    """

    uri: str | None = None
    urls: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    source: Source | None = None
    title: str | None = None
    tail: str | None = None
    channel: str | None = None
    container: str | None = None
    detail: str | None = None
    panel: str | None = None
    line: int | None = None


def parse_url(text: str) -> Address:
    """Read a URL; one of no known shape is looked up as it stands."""
    text = text.strip()
    if text.lower().startswith("ctx://"):
        return Address(uri=uris.item_uri(text))
    try:
        url = urlsplit(text)
    except ValueError:  # a bracket that opens no address
        return Address(aliases=(text,))
    host = (url.hostname or "").lower()
    segments = [unquote(s) for s in url.path.split("/") if s]
    for known in (_azure_devops(url, host, segments), _teams(url, host, segments), _grafana(url, segments)):
        if known is not None:
            return known
    bare = text.split("#")[0].split("?")[0]
    return Address(urls=tuple(dict.fromkeys((text, bare, bare.rstrip("/")))), aliases=(text, bare))


def parse_file(text: str) -> Address:
    """Read `repo/path`, with an optional `:line` or `#L12`; a Windows path's backslashes are slashes."""
    path = text.strip().replace("\\", "/")
    line: int | None = None
    if m := re.search(r"(?::|#L)(\d{1,7})(?:[:-]L?\d+)?$", path):
        line, path = int(m[1]), path[: m.start()]
    path = path.strip("/")
    aliases = [path]
    if "/" in path:
        aliases.append(path.partition("/")[2])
    return Address(
        aliases=tuple(aliases),
        container=path.partition("/")[0] if "/" in path else None,
        source=Source.CODE,
        line=line,
        detail=f"line {line}" if line is not None else None,
    )


def parse_channel(text: str) -> Address:
    """Read a channel's URL, its id (19:…@thread.tacv2) or Team/Channel."""
    if re.match(r"https?://", text.strip(), re.I):
        return parse_url(text)
    return Address(channel=text.strip().strip("/"), source=Source.TEAMS)


def _is_number(text: str) -> bool:
    """Whether it is a number as addresses hold them; `isdigit` says yes to ² as well."""
    return re.fullmatch(r"[0-9]{1,18}", text) is not None


def _azure_devops(url: SplitResult, host: str, segments: list[str]) -> Address | None:
    if host == "dev.azure.com" and segments:
        organization, rest = segments[0].lower(), segments[1:]
    elif host.endswith(".visualstudio.com"):
        organization, rest = host.split(".")[0], segments
        if rest and rest[0].lower() == "defaultcollection":
            rest = rest[1:]
    else:
        return None
    lowered = [s.lower() for s in rest]
    query = parse_qs(url.query)
    numbers = [*query.get("workitem", []), *query.get("id", [])]
    if "_workitems" in lowered:
        numbers += rest[lowered.index("_workitems") + 1 :]
    if numbers and any(s in lowered for s in ("_workitems", "_boards", "_backlogs", "_sprints", "_queries")):
        number = next((n for n in numbers if _is_number(n)), None)
        if number is not None:
            return Address(uri=uris.work_item(organization, int(number)), source=Source.WORK_ITEMS)
    if "_wiki" in lowered:
        return _wiki(organization, rest, lowered, query)
    if "_git" in lowered:
        return _git(organization, rest, lowered.index("_git"), query)
    return None


def _wiki(organization: str, rest: list[str], lowered: list[str], query: dict[str, list[str]]) -> Address:
    at = lowered.index("_wiki")
    project = rest[0] if at > 0 else ""
    after = rest[at + 1 :]
    if after and after[0].lower() == "wikis":
        after = after[1:]
    wiki = after[0] if after else ""
    page = next((s for s in after[1:] if _is_number(s)), None)
    slug = after[-1] if page and after[-1] != page else ""
    path = query.get("pagePath", [""])[0]
    stem = f"https://dev.azure.com/{organization}/{quote(project)}/_wiki/wikis/{quote(wiki)}"
    aliases = []
    urls = []
    if page:
        urls = [f"{stem}/{page}/{quote(slug)}", f"{stem}/{page}"]
        aliases = [f"{wiki}/{page}"]
    if path:
        aliases += [f"{wiki}{path}", f"{wiki}/{path.lstrip('/')}", path, path.lstrip("/")]
    title = path.rstrip("/").rsplit("/", 1)[-1] if path else unquote(slug.replace("-", " "))
    return Address(
        urls=tuple(urls),
        aliases=tuple(aliases),
        source=Source.WIKIS,
        title=title or None,
        tail=f"/pages/{page}" if page else None,
    )


def _git(organization: str, rest: list[str], at: int, query: dict[str, list[str]]) -> Address | None:
    after = rest[at + 1 :]
    if not after:
        return None
    # A repo named like its project is addressed without the project.
    project, repo = rest[0] if at > 0 else after[0], after[0]
    stem = f"https://dev.azure.com/{organization}/{quote(project)}/_git/{quote(repo)}"
    if len(after) >= 3 and after[1].lower() == "commit":
        sha = after[2].lower()
        return Address(urls=(f"{stem}/commit/{sha}",), aliases=(sha,), source=Source.CODE)
    if len(after) >= 3 and after[1].lower() == "pullrequest" and _is_number(after[2]):
        return Address(
            urls=(f"{stem}/pullrequest/{after[2]}",), source=Source.PULL_REQUESTS, aliases=(f"{repo}/{after[2]}",)
        )
    path = query.get("path", [""])[0]
    if not path:
        return None
    path = "/" + path.lstrip("/")
    line = query.get("line", [""])[0]
    return Address(
        urls=(f"{stem}?path={path}", f"{stem}?path={quote(path)}"),
        aliases=(f"{repo}{path}", path.lstrip("/")),
        container=repo,
        source=Source.CODE,
        line=int(line) if _is_number(line) else None,
        detail=f"line {line}" if _is_number(line) else None,
    )


def _teams(url: SplitResult, host: str, segments: list[str]) -> Address | None:
    if host not in ("teams.microsoft.com", "teams.cloud.microsoft") or len(segments) < 3 or segments[0] != "l":
        return None
    query = parse_qs(url.query)
    channel = segments[2]
    if segments[1] == "channel":
        return Address(channel=channel, source=Source.TEAMS)
    if segments[1] == "message" and len(segments) >= 4:
        message = segments[3]
        root = query.get("parentMessageId", [message])[0]
        tenant = query.get("tenantId", [""])[0]
        return Address(
            uri=uris.thread(tenant, channel, root) if tenant else None,
            urls=(f"https://teams.microsoft.com{url.path}", f"https://teams.microsoft.com{url.path}?{url.query}"),
            aliases=(message,),
            source=Source.TEAMS,
            tail=f"/messages/{root}",
        )
    return None


def _grafana(url: SplitResult, segments: list[str]) -> Address | None:
    kind = next((s for s in segments if s in ("d", "d-solo")), None)
    if kind is None or segments.index(kind) + 1 >= len(segments):
        return None
    uid = segments[segments.index(kind) + 1]
    query = parse_qs(url.query)
    panel = next((query[k][0] for k in ("viewPanel", "panelId", "editPanel", "inspect") if query.get(k)), None)
    if panel is not None:
        panel = panel.removeprefix("panel-")
    aliases = [f"grafana:{uid}/{panel}"] if panel else []
    return Address(aliases=(*aliases, f"grafana:{uid}"), panel=panel, detail=f"panel {panel}" if panel else None)
