"""ctx:// addresses: stable names of items, made of ids that survive renames."""

from __future__ import annotations

from urllib.parse import quote

_SAFE = ":@"


def _join(*segments: str) -> str:
    # A path may hold what is no text (half a surrogate pair): it has an address all the same.
    return "ctx://" + "/".join(quote(s, safe=_SAFE, errors="surrogatepass") for s in segments)


def work_item(organization: str, number: int) -> str:
    """A work item of an organization (ids are unique in it)."""
    return _join("ado", organization.lower(), "work-items", str(number))


def work_item_comment(organization: str, number: int, comment: int) -> str:
    """One comment of a work item: a part of the item, not an item."""
    return f"{work_item(organization, number)}/comments/{comment}"


def wiki_page(organization: str, wiki_id: str, page_id: int) -> str:
    """A wiki page by the id that survives renames and moves."""
    return _join("ado", organization.lower(), "wikis", wiki_id.lower(), "pages", str(page_id))


def file(organization: str, repo_id: str, path: str) -> str:
    """A file at the head of the default branch."""
    return _join("ado", organization.lower(), "repos", repo_id.lower(), "files", *path.lstrip("/").split("/"))


def commit(organization: str, repo_id: str, sha: str) -> str:
    """A commit by its 40-digit id."""
    return _join("ado", organization.lower(), "repos", repo_id.lower(), "commits", sha.lower())


def pull_request(organization: str, repo_id: str, number: int) -> str:
    """A pull request of a repo."""
    return _join("ado", organization.lower(), "repos", repo_id.lower(), "pull-requests", str(number))


def repo_items(organization: str, repo_id: str) -> str:
    """How the address of everything in a repo begins: files, commits, pull requests."""
    return _join("ado", organization.lower(), "repos", repo_id.lower()) + "/"


def wiki_pages(organization: str, wiki_id: str) -> str:
    """How the address of every page of a wiki begins."""
    return _join("ado", organization.lower(), "wikis", wiki_id.lower()) + "/"


def channel(tenant: str, channel_id: str) -> str:
    """A channel as a place: what may be read there, and by whom."""
    return _join("teams", tenant.lower(), "channels", channel_id)


def team(tenant: str, team_id: str) -> str:
    """A team with all its channels as a place."""
    return _join("teams", tenant.lower(), "teams", team_id.lower())


def directory(tenant: str) -> str:
    """Accounts and groups of a tenant as a place."""
    return _join("teams", tenant.lower(), "directory")


def thread(tenant: str, channel_id: str, root_id: str) -> str:
    """A Teams thread by its root message: the unit of meaning in chat."""
    return _join("teams", tenant.lower(), "channels", channel_id, "messages", root_id)


def reply(tenant: str, channel_id: str, root_id: str, reply_id: str) -> str:
    """One reply in a thread: a part of the item, not an item."""
    return f"{thread(tenant, channel_id, root_id)}/replies/{quote(reply_id, safe=_SAFE)}"


def item_uri(uri: str) -> str:
    """The address of the item that a part's address (comment, reply) belongs to; any other address as it is."""
    for marker, of in (("/comments/", "/work-items/"), ("/replies/", "/messages/")):
        head, found, part = uri.partition(marker)
        if found and of in head and part and "/" not in part:
            return head
    return uri
