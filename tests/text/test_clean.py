"""Invisible characters and secrets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.text.clean import clean, clean_text
from core.text.redact import redact

UNICODE = json.loads((Path(__file__).parent / "inputs" / "unicode.json").read_text("utf-8"))


def test_hidden_instructions_go_and_are_told() -> None:
    found = clean(UNICODE["with_tags"])
    assert found.text == "Berth 7 is closed."
    assert found.hidden
    assert clean_text(UNICODE["bidi"]) == "role: nimda"
    assert clean_text(UNICODE["zwsp"]) == "berth seven"


@pytest.mark.parametrize("name", ["family", "persian_zwnj", "nfc", "nfd"])
def test_what_writing_needs_stays_as_it_is(name: str) -> None:
    found = clean(UNICODE[name])
    assert found.text == UNICODE[name]
    assert not found.hidden


def test_a_flag_made_of_tag_letters_is_seen_and_stays() -> None:
    england = "\U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f"
    assert clean(f"go {england}!").text == f"go {england}!"


def test_nuls_go_and_other_controls_stay() -> None:
    assert clean_text("kai\0 7\t\x1b[0m\n") == "kai 7\t\x1b[0m\n"
    assert not clean("kai\0 7").hidden


def test_halves_of_characters_can_not_reach_a_store() -> None:
    clean_text("a\ud83db").encode("utf-8")


@given(st.text(max_size=80))
def test_cleaning_twice_changes_nothing_more(text: str) -> None:
    assert clean_text(clean_text(text)) == clean_text(text)


def test_only_the_key_is_masked_among_harmless_ids() -> None:
    text = (
        "commit 9f1c2ab34d5e6f708192a3b4c5d6e7f801234567 fixes AB#4102, build 20310310.7, "
        "id 3f2504e0-4f89-41d3-9a0c-0305e82c3301, key {}"
    )
    assert redact(text.format("AKIAIOSFODNN7EXAMPLE")) == text.format("[secret removed: aws key]")


JWT = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIiwibmFtZSI6IkoifQ.c2lnbmF0dXJlLXZhbHVlLW9m"
SECRETS = [
    (JWT, JWT),
    ("-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA7\nabc\n-----END RSA PRIVATE KEY-----", "MIIEowIBAAKCAQEA7"),
    ("Server=db;Database=x;User Id=sa;Password=hunter;Encrypt=true", "hunter"),
    ("postgres://app:s3cr3tpw@db:5432/x", "s3cr3tpw"),
    ("DefaultEndpointsProtocol=https;AccountName=a;AccountKey=" + "Ab1+" * 21 + "Cd==;", "Ab1+Ab1+"),
    ("ghp_" + "aB3dE6gH9j" * 4, "aB3dE6gH9j"),
    ('password = "Tr0ub4dor&3"', "Tr0ub4dor&3"),
    ("wachtwoord: Zomer2026!", "Zomer2026!"),
    ('api_key: "9fK2mQ8xZt4LwR7vB1nC5dY3"', "9fK2mQ8xZt4LwR7vB1nC5dY3"),
    ("Authorization: Bearer abcdef0123456789abcdef", "abcdef0123456789abcdef"),
    ("a" * 40 + "Z9" * 18 + "AZDO1a2B", "AZDO1a2B"),
    ("https://x.blob.core.windows.net/c/f?sv=1&sig=" + "aB3%2F" * 10 + "%3D", "aB3%2FaB3"),
]


@pytest.mark.parametrize(("text", "secret"), SECRETS, ids=range(len(SECRETS)))
def test_secrets_are_masked(text: str, secret: str) -> None:
    masked = redact(f"before {text} after")
    assert secret not in masked
    assert "[secret removed" in masked
    assert masked.startswith("before ")
    assert redact(masked) == masked


@pytest.mark.parametrize(
    "text",
    [
        "password = ${DB_PASSWORD}",
        "password: <your password>",
        'token = os.environ["TOKEN"]',
        "The token: expired yesterday, ask Pieter for a new one",
        "the secret is in the vault, see secret: kv-partner-gateway",
        "api_key = settings.partner_api_key",
        "def verify(token: str, secret: bytes) -> bool:",
        "token: 3f2504e0-4f89-41d3-9a0c-0305e82c3301",
        "access_token: 9f1c2ab34d5e6f708192a3b4c5d6e7f801234567",
        "https://dev.azure.com/contoso/_git/x?path=/src/x.py",
        "password rotation takes 90 days",
        "sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393",
        "PG-4031 AB#4102 TLS1.2 20310310.7",
        "Server=db;Password=***;",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert redact(text) == text
