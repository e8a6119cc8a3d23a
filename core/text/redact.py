"""Masks secrets in text before it is stored: what is surely one, and nothing that people search for.

Tokens are known by their issuer's shape. A value after a word such as `password` is masked only where it stands as a
value does (quoted, in a connection string, in an assignment) and looks like a secret: commit ids, GUIDs, numbers,
placeholders and references to a vault stay.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import Final

_B = r"(?<![A-Za-z0-9_])"
_E = r"(?![A-Za-z0-9_])"

_TOKENS: Final = {
    "private key": r"-----BEGIN[ A-Z0-9_-]{0,60}PRIVATE KEY(?: BLOCK)?-----[\s\S]{16,20000}?"
    r"-----END[ A-Z0-9_-]{0,60}PRIVATE KEY(?: BLOCK)?-----",
    "aws key": rf"{_B}(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{{16}}{_E}|{_B}A3T[A-Z0-9][A-Z2-7]{{16}}{_E}",
    "jwt": rf"{_B}ey[A-Za-z0-9_-]{{15,}}\.ey[A-Za-z0-9_/\\-]{{15,}}\.(?:[A-Za-z0-9_/\\-]{{10,}}={{0,2}})?",
    "github token": rf"{_B}(?:gh[pousr]_[A-Za-z0-9]{{36,}}|github_pat_[A-Za-z0-9_]{{80,}}){_E}",
    "gitlab token": rf"{_B}gl(?:pat|dt|rt|cbt|ptt|soat|ft|imt|agent|oas)-[A-Za-z0-9_-]{{20,}}",
    "azure devops token": rf"{_B}[A-Za-z0-9]{{76}}AZDO[A-Za-z0-9]{{4}}{_E}",
    "azure client secret": r"(?<![A-Za-z0-9_~.])[A-Za-z0-9_~.]{3}\dQ~[A-Za-z0-9_~.-]{31,34}(?![A-Za-z0-9_~-])",
    "azure storage key": r"(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{76}(?:\+ASt|\+ABa|\+AMC|\+AEh|ACDb|AzFu)"
    r"[A-Za-z0-9+/]{3,}={0,2}",
    "account key": r"(?i)(?<=AccountKey=)[A-Za-z0-9+/]{40,}={0,2}|(?<=SharedAccessKey=)[A-Za-z0-9+/]{40,}={0,2}",
    "sas signature": r"(?<=[?&]sig=)[A-Za-z0-9%+/]{40,}={0,2}",
    "slack token": rf"{_B}xox[abeoprs](?:\.xox[bp])?-[A-Za-z0-9-]{{10,}}|{_B}xapp-\d-[A-Z0-9]+-\d+-[a-z0-9]+",
    "webhook": r"(?<=hooks\.slack\.com/services/)[A-Za-z0-9+/]{43,56}"
    r"|(?<=webhook\.office\.com/webhookb2/)[0-9a-f@/A-Za-z-]{80,}",
    "google key": rf"{_B}AIza[A-Za-z0-9_-]{{35}}(?![A-Za-z0-9_-])",
    "stripe key": rf"{_B}(?:sk|rk)_(?:test|live|prod)_[A-Za-z0-9]{{10,99}}{_E}",
    "api token": rf"{_B}(?:sk-(?:ant-|proj-|svcacct-)?[A-Za-z0-9_-]{{32,}}|hf_[A-Za-z]{{34}}|npm_[A-Za-z0-9]{{36}}"
    rf"|pypi-AgEI[A-Za-z0-9_-]{{50,}}|dapi[a-f0-9]{{32}}(?:-\d)?|glsa_[A-Za-z0-9]{{32}}_[A-Fa-f0-9]{{8}}"
    rf"|SG\.[A-Za-z0-9_-]{{22}}\.[A-Za-z0-9_-]{{43}}|dop_v1_[a-f0-9]{{64}}|shp(?:at|ca|pa|ss)_[a-fA-F0-9]{{32}}"
    rf"|hv[sb]\.[A-Za-z0-9_-]{{24,}}|ops_eyJ[A-Za-z0-9+/]{{250,}}={{0,3}}|lin_api_[A-Za-z0-9]{{40}}){_E}",
}

_NAMES = (
    r"pass(?:word|wd|phrase)?|pwd|secret|api[_-]?key|access[_-]?key|auth[_-]?token|access[_-]?token|client[_-]?secret"
    r"|private[_-]?key|signing[_-]?key|token|credential|wachtwoord|geheim"
)
# A name that ends in one of the words, then = or : or =>, then a quoted value or one without spaces.
_ASSIGNED: Final = re.compile(
    rf"""(?i)(?P<head>(?<![A-Za-z0-9])(?:[\w.-]{{0,40}}?[_.\-])?(?P<name>{_NAMES})["'`]?\s{{0,3}}(?::|=>|:?=)\s{{0,3}})"""
    r"""(?:(?P<quote>["'`])(?P<quoted>[^"'`\n]{6,200})(?P=quote)|(?P<bare>[^\s"'`,;<>(){}\[\]]{6,200}))"""
)
# In a connection string or URL, whatever stands in the place of the password is one.
_CONNECTION: Final = re.compile(
    r"(?i)(?P<head>;\s*(?:password|pwd)\s*=\s*|\b(?:server|data source|host|user id|uid)\s*=[^;\n]{1,200};"
    r"(?:[^;\n]{1,200};){0,8}\s*(?:password|pwd)\s*=\s*)(?P<value>[^;\s\"']{1,200})"
)
_URL: Final = re.compile(
    r"(?P<head>\b[a-z][a-z0-9+.-]{1,20}://[^\s/:@\"'<>]{1,80}:)(?P<value>[^\s/@\"'<>]{3,200})(?=@)"
)
_BEARER: Final = re.compile(
    r"(?i)(?P<head>\b(?:authorization|proxy-authorization)[\"']?\s*[:=]\s*[\"']?(?:bearer|basic|token)\s+)"
    r"(?P<value>[A-Za-z0-9._~+/=-]{16,})"
)

_PLACEHOLDER: Final = re.compile(
    r"(?i)^(?:\$|%|\{|<|@|\*|x{4,}|\.{3}|#)|[*•]{3,}|\.\.\.|\$\{|\{\{|\$\(|example|changeme|placeholder|redacted|your[_-]"
    r"|process\.env|os\.environ|getenv|secretref|keyvault|vault:"
)
_PLAIN_ID: Final = re.compile(
    r"(?i)^(?:[0-9a-f]{40}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[\d.,:_-]+|v?\d+(?:\.\d+)+\S*|https?://\S+|true|false)$"
)
_PATTERNS: Final = [(name, re.compile(pattern)) for name, pattern in _TOKENS.items()]
_HINT: Final = re.compile(rf"(?i){_NAMES}|uid\s*=|user id")


def redact(text: str) -> str:
    """Return `text` with each secret replaced by `[secret removed: kind]`. Applying it again changes nothing."""
    for name, pattern in _PATTERNS:
        text = pattern.sub(f"[secret removed: {name}]", text)
    text = _URL.sub(_masked("password"), text)
    text = _BEARER.sub(_masked("token"), text)
    if _HINT.search(text):
        text = _CONNECTION.sub(_masked("password"), text)
        text = _ASSIGNED.sub(_assigned, text)
    return text


def _masked(kind: str) -> _Mask:
    return _Mask(kind)


class _Mask:
    def __init__(self, kind: str) -> None:
        self._kind = kind

    def __call__(self, found: re.Match[str]) -> str:
        value = found.group("value")
        if _PLACEHOLDER.search(value) or value.startswith("[secret"):
            return found.group()
        return f"{found.group('head')}[secret removed: {self._kind}]"


def _assigned(found: re.Match[str]) -> str:
    value = found.group("quoted") or found.group("bare")
    name = found.group("name").lower()
    quote = found.group("quote") or ""
    if not _is_secret(value, certain=name.startswith(("pass", "pwd", "wachtwoord")), quoted=bool(quote)):
        return found.group()
    return f"{found.group('head')}{quote}[secret removed: {name}]{quote}"


def _is_secret(value: str, *, certain: bool, quoted: bool) -> bool:
    """Whether a value that is called a secret looks like one; words, ids, paths, calls and placeholders do not."""
    if _PLACEHOLDER.search(value) or _PLAIN_ID.match(value) or " " in value or "secret removed" in value:
        return False
    kinds = sum(bool(re.search(p, value)) for p in (r"[a-z]", r"[A-Z]", r"\d", r"[^A-Za-z0-9]"))
    has_digit = any(c.isdigit() for c in value)
    if certain:
        return has_digit and (kinds >= 3 or len(value) >= 8)
    identifier = re.fullmatch(r"[A-Za-z_][A-Za-z_.]*\d{0,2}", value) is not None
    return len(value) >= 16 and has_digit and not identifier and _entropy(value) >= (3.3 if quoted else 3.5)


def _entropy(value: str) -> float:
    """Bits a character."""
    return -sum(n / len(value) * math.log2(n / len(value)) for n in Counter(value).values())
