"""Which files of a repo are read, by settings and by what the repo says of its own files; and their text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from core.items import TextFormat
from core.settings import AzureDevOpsSettings
from core.text.decode import NotText, decode
from ingestion.azure_devops.catalogue import Repo
from ingestion.azure_devops.file_item import definition_of
from ingestion.azure_devops.git import GitRepo
from ingestion.azure_devops.kinds import FileKind, FileRules, LeftOut, looks_packed, says_generated
from ingestion.azure_devops.organization import fingerprint
from ingestion.azure_devops.path_patterns import Attributes
from ingestion.azure_devops.texts import page_text

# How files are told; another number reads them all again, so that an index made before is brought up to date.
_TELLING = 2
_MOST_ATTRIBUTE_FILES = 100
_LONGEST = 100_000


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a file is left out, in words that a run counts."""

    reason: str


class RepoRules:
    """The rules of every repo of an organization."""

    def __init__(self, settings: AzureDevOpsSettings) -> None:
        self._general = FileRules.of(settings.max_file_bytes, settings.file_endings, settings.exclude_paths)
        # Changes when files that are the same are to be read again all the same.
        self.fingerprint = fingerprint(
            _TELLING, settings.max_file_bytes, sorted(settings.file_endings), sorted(settings.exclude_paths)
        )
        # What each repo says of its files, with the blobs that say it.
        self._attributes: dict[str, tuple[list[tuple[str, str]], Attributes]] = {}

    def of(self, repo: Repo, git: GitRepo, tree: Mapping[str, str]) -> FileRules:
        """The rules for the files of a tree (path to blob id)."""
        wanted = attribute_files(tree)
        if repo.id not in self._attributes or self._attributes[repo.id][0] != wanted:
            texts = {path: git.blob(blob, most=_LONGEST).decode("utf-8", "replace") for path, blob in wanted}
            self._attributes[repo.id] = (wanted, Attributes.of(texts))
        return replace(self._general, attributes=self._attributes[repo.id][1])


def attribute_files(tree: Mapping[str, str]) -> list[tuple[str, str]]:
    """Path and blob of the files in which a repo says what its other files are, those nearest to the top first."""
    found = [(p, blob) for p, blob in tree.items() if p.rpartition("/")[2] == ".gitattributes"]
    return sorted(found, key=lambda x: (x[0].count("/"), x))[:_MOST_ATTRIBUTE_FILES]


def text_in(data: bytes, path: str, kind: FileKind, rules: FileRules) -> str | Refusal:
    """The text of a file, or why it is left out for what it holds."""
    refused = rules.refused(data)
    if refused is not None:
        return Refusal(refused)
    decoded = decode(data)
    if isinstance(decoded, NotText):
        return Refusal(decoded.value.replace("_", " "))
    if not decoded.text.strip():
        return Refusal(LeftOut.EMPTY)
    if rules.may_be_generated(path) and _is_generated(decoded.text, kind):
        return Refusal(LeftOut.GENERATED)
    return decoded.text


def _is_generated(text: str, kind: FileKind) -> bool:
    if says_generated(text):
        return True
    if kind.format is TextFormat.MARKDOWN:
        # A picture in the text makes one long line, and is not read.
        return looks_packed(page_text(text))
    # A dashboard or model may come on one line, and is told thing by thing all the same.
    return looks_packed(text) and definition_of(text, kind.language) is None
