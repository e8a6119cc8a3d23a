"""Encrypted resource data: whose it is is checked before it is opened, and old keys open what was sent for them."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from core import uris
from core.errors import ConfigError, StoreUnavailableError
from core.settings import WebhookSettings
from ingestion.webhooks.certificates import Certificate, ResourceKeys, load_certificate, load_keys
from ingestion.webhooks.graph import GraphParser, Notifications
from ingestion.webhooks.outcomes import Outcome, Refused
from ingestion.webhooks.validation_tokens import CHANGE_TRACKING, TokenChecker
from tests.webhooks.envelopes import (
    CHANNEL,
    KEY,
    NOW,
    TENANT,
    Row,
    encrypted,
    graph,
    make_certificate,
    message,
    notice,
)

CLIENT = "7a3f2c51-0000-4000-8000-0000000000c1"
STS = f"https://sts.windows.net/{TENANT}/"


class Keys:
    """The signing keys of an identity provider, and how often they were fetched."""

    def __init__(self) -> None:
        self.fetched = 0
        self.down = False
        self.keys = {"k1": rsa.generate_private_key(public_exponent=65537, key_size=2048)}

    def answer(self, _: httpx.Request) -> httpx.Response:
        self.fetched += 1
        if self.down:
            return httpx.Response(503)
        rows = [
            json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(key.public_key())) | {"kid": kid}
            for kid, key in self.keys.items()
        ]
        return httpx.Response(200, json={"keys": rows})

    def token(self, kid: str = "k1", *, of: rsa.RSAPrivateKey | None = None, **claims: Any) -> str:
        now = int(time.time())
        good = {"iss": STS, "aud": CLIENT, "appid": CHANGE_TRACKING, "exp": now + 600, "nbf": now - 5, "iat": now - 5}
        given = {k: v for k, v in (good | claims).items() if v is not None}
        return jwt.encode(given, of or self.keys[kid], algorithm="RS256", headers={"kid": kid})


@pytest.fixture(scope="module")
def pairs() -> list[tuple[bytes, bytes]]:
    return [make_certificate(), make_certificate()]


@pytest.fixture(scope="module")
def issuer() -> Keys:
    return Keys()


@pytest.fixture
def idp(issuer: Keys) -> Keys:
    issuer.fetched, issuer.down = 0, False
    return issuer


class Clock:
    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def checker(idp: Keys, now: Callable[[], float] = lambda: 0.0) -> TokenChecker:
    return TokenChecker(
        "https://login.example/keys",
        tenant=TENANT,
        client_id=CLIENT,
        authority="https://login.microsoftonline.com",
        now=now,
        transport=httpx.MockTransport(idp.answer),
    )


class Setup:
    """A receiver's certificate files, and a parser with them."""

    def __init__(self, folder: Path, idp: Keys, pairs: list[tuple[bytes, bytes]]) -> None:
        for n, (certificate, key) in enumerate(pairs):
            (folder / f"c{n}.pem").write_bytes(certificate)
            (folder / f"k{n}.pem").write_bytes(key)
        self.folder, self.idp, self.pairs = folder, idp, pairs
        self.settings = WebhookSettings(certificate=folder / "c0.pem", certificate_key=folder / "k0.pem")

    def certificate(self) -> Certificate:
        found = load_certificate(self.settings)
        assert found is not None
        return found

    def keys(self) -> ResourceKeys | None:
        return load_keys(self.settings)

    def read(self, content: Row, tokens: list[str] | None = None) -> Notifications:
        parser = GraphParser(
            tenant=TENANT,
            key=KEY,
            max_age=timedelta(days=1),
            resources_of=lambda _: {},
            tokens=checker(self.idp),
            keys=self.keys(),
        )
        given = [self.idp.token()] if tokens is None else tokens
        return parser.read(graph(notice(message("1"), encryptedContent=content), tokens=given), NOW)


@pytest.fixture
def setup(tmp_path: Path, idp: Keys, pairs: list[tuple[bytes, bytes]]) -> Setup:
    return Setup(tmp_path, idp, pairs)


def sealed(setup: Setup, content: Row | None = None) -> Row:
    name = setup.certificate().id
    return encrypted(content or {"id": "1", "etag": "1700", "messageType": "message"}, setup.pairs[0][0], name)


def outcomes(found: Notifications) -> list[Outcome]:
    return [r.outcome for r in found.refused]


def test_what_is_sealed_for_us_and_signed_for_by_graph_is_a_hint_like_any_other(setup: Setup) -> None:
    found = setup.read(sealed(setup))
    assert not found.refused
    assert [h.uri for a in found.arrivals for h in a.hints] == [uris.thread(TENANT, CHANNEL, "1")]


def test_another_copy_of_a_version_is_known_however_it_was_sealed(setup: Setup) -> None:
    keys = [a.key for _ in range(2) for a in setup.read(sealed(setup)).arrivals]
    other = [a.key for a in setup.read(sealed(setup, {"etag": "1701"})).arrivals]
    assert keys[0] == keys[1] != other[0]


def test_a_system_event_is_a_hint_for_who_may_read_the_channel(setup: Setup) -> None:
    found = setup.read(sealed(setup, {"messageType": "systemEventMessage", "etag": "1"}))
    assert [h.place for a in found.arrivals for h in a.hints] == [uris.channel(TENANT, CHANNEL)]


def test_a_wrong_signature_is_refused_before_anything_is_opened(setup: Setup) -> None:
    for part in ("data", "dataSignature", "dataKey"):
        content = sealed(setup)
        raw = bytearray(base64.b64decode(content[part]))
        raw[3] ^= 1
        found = setup.read(content | {part: base64.b64encode(raw).decode()})
        assert outcomes(found) == [Outcome.FORGED], part
        assert not found.arrivals


@pytest.mark.parametrize("broken", [{"data": "!"}, {"dataKey": 5}, {"dataSignature": ""}, {"data": ""}])
def test_what_can_not_be_opened_is_refused(setup: Setup, broken: Row) -> None:
    assert outcomes(setup.read(sealed(setup) | broken)) == [Outcome.FORGED]


def test_after_a_rotation_what_was_sealed_for_the_earlier_certificate_is_opened_as_well(setup: Setup) -> None:
    before = sealed(setup, {"etag": "1", "messageType": "systemEventMessage"})
    folder = setup.folder
    rotated = {"certificate": folder / "c1.pem", "certificate_key": folder / "k1.pem"}
    setup.settings = WebhookSettings(**rotated, previous_certificate_keys=(folder / "k0.pem",))
    assert setup.certificate().id != before["encryptionCertificateId"]
    assert [h.place for a in setup.read(before).arrivals for h in a.hints] == [uris.channel(TENANT, CHANNEL)]
    setup.settings = WebhookSettings(**rotated)
    without = setup.read(before)
    assert outcomes(without) == [Outcome.UNDECRYPTABLE]
    assert len(without.arrivals) == 1, "what it names is read again all the same"


def test_a_certificate_is_found_by_its_thumbprint_where_its_id_is_another(setup: Setup) -> None:
    content = sealed(setup, {"etag": "1", "messageType": "systemEventMessage"}) | {"encryptionCertificateId": "renamed"}
    assert [h.place for a in setup.read(content).arrivals for h in a.hints] == [uris.channel(TENANT, CHANNEL)]


def test_resource_data_without_a_good_token_for_us_is_refused(setup: Setup, idp: Keys) -> None:
    other = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    expired = int(time.time()) - 120
    for name, tokens in {
        "none": [],
        "not a token": ["x"],
        "another application's": [idp.token(aud="another")],
        "another sender's": [idp.token(appid="another")],
        "no sender": [idp.token(appid=None)],
        "another tenant's": [idp.token(iss="https://sts.windows.net/another/")],
        "expired": [idp.token(exp=expired)],
        "without an end": [idp.token(exp=None)],
        "signed by somebody else": [idp.token(of=other)],
        "an unknown key": [jwt.encode({}, other, algorithm="RS256", headers={"kid": "made-up"})],
        "unsigned": [jwt.encode({"iss": STS, "aud": CLIENT, "appid": CHANGE_TRACKING}, None, algorithm="none")],
        "one of two": [idp.token(), idp.token(aud="another")],
        "too many": [idp.token()] * 11,
    }.items():
        found = setup.read(sealed(setup), tokens)
        assert outcomes(found) == [Outcome.FORGED], name
        assert not found.arrivals
    v2 = idp.token(iss=f"https://login.microsoftonline.com/{TENANT}/v2.0", appid=None, azp=CHANGE_TRACKING)
    assert not setup.read(sealed(setup), [v2]).refused


def test_keys_are_fetched_once_and_for_made_up_ones_at_most_once_a_minute(idp: Keys) -> None:
    clock = Clock()
    checks = checker(idp, clock)
    for _ in range(5):
        checks.check([idp.token()])
    assert idp.fetched == 1
    made_up = [jwt.encode({}, idp.keys["k1"], algorithm="RS256", headers={"kid": "made-up"})]
    for _ in range(5):
        with pytest.raises(Refused):
            checks.check(made_up)
    assert idp.fetched == 1
    clock.seconds = 61
    for _ in range(5):
        with pytest.raises(Refused):
            checks.check(made_up)
    assert idp.fetched == 2


def test_keys_that_can_not_be_had_are_no_refusal_so_that_it_is_told_again(idp: Keys) -> None:
    clock = Clock()
    checks = checker(idp, clock)
    idp.down = True
    for _ in range(3):
        with pytest.raises(StoreUnavailableError):
            checks.check([idp.token()])
    assert idp.fetched == 1, "not each delivery asks in vain"
    idp.down, clock.seconds = False, 6
    checks.check([idp.token()])
    idp.down, clock.seconds = True, 100_000
    checks.check([idp.token()])


def test_a_certificate_that_is_of_no_use_is_told_at_the_start(setup: Setup) -> None:
    folder = setup.folder
    (folder / "broken.pem").write_text("x")
    for settings in (
        WebhookSettings(certificate=folder / "c0.pem"),
        WebhookSettings(certificate=folder / "c0.pem", certificate_key=folder / "k1.pem"),
        WebhookSettings(certificate=folder / "c0.pem", certificate_key=folder / "nowhere.pem"),
        WebhookSettings(certificate=folder / "broken.pem", certificate_key=folder / "k0.pem"),
        WebhookSettings(previous_certificate_keys=(folder / "c0.pem",)),
    ):
        with pytest.raises(ConfigError) as caught:
            load_keys(settings)
        assert str(caught.value).startswith("webhooks.")
    assert load_keys(WebhookSettings()) is None
    assert load_certificate(WebhookSettings()) is None
