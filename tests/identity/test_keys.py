"""Keys change hands without anybody being locked out, and an issuer that hangs or is hammered holds up nobody."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from core.errors import IdentityError, IdentityReason, StoreUnavailableError
from core.principals import user
from core.settings import IssuerSettings
from query import keys
from query.identity import TokenVerifier
from query.keys import FRESH_SECONDS, KEPT_SECONDS, PAUSE_SECONDS, UNKNOWN_SECONDS, WAITING, KeyCache, fetch_keys
from tests.identity.issuer import AUDIENCE, IRIS, T1, TestIssuer, entra, jwk, rsa_key, token, verifier


class Moment:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def moment() -> Moment:
    return Moment()


def settings(issuer: TestIssuer) -> IssuerSettings:
    return IssuerSettings(
        issuer=f"https://login.microsoftonline.com/{T1}/v2.0",
        tenant=T1,
        audience=(AUDIENCE,),
        jwks_uri=issuer.keys_url,
    )


@pytest.fixture
def verify(issuer: TestIssuer, moment: Moment) -> TokenVerifier:
    return verifier(settings(issuer), monotonic=moment)


def accepted(verify: TokenVerifier, kid: str) -> bool:
    """Whether a token signed with that key is taken; StoreUnavailableError where nobody can tell."""
    try:
        return verify.verify(token(entra(), kid=kid, key=rsa_key(kid))).principal == user(T1, IRIS)
    except IdentityError as e:
        if e.reason is IdentityReason.BAD_SIGNATURE:
            return False
        raise


def test_a_new_key_is_found_and_a_removed_one_is_gone_with_the_next_set(
    issuer: TestIssuer, verify: TokenVerifier, moment: Moment
) -> None:
    assert accepted(verify, "one")
    issuer.keys = [jwk("two"), jwk("one")]
    moment.now += PAUSE_SECONDS
    assert accepted(verify, "two")
    assert issuer.fetched == 2
    issuer.keys = [jwk("two")]
    moment.now += FRESH_SECONDS + 1
    assert not accepted(verify, "one")
    assert accepted(verify, "two")
    assert issuer.fetched == 3


def test_keys_are_kept_for_a_while(issuer: TestIssuer, verify: TokenVerifier, moment: Moment) -> None:
    for _ in range(10):
        moment.now += FRESH_SECONDS / 10
        assert accepted(verify, "one")
    assert issuer.fetched == 1


def test_a_thousand_unknown_keys_cost_the_issuer_two_calls_at_most(issuer: TestIssuer, verify: TokenVerifier) -> None:
    assert accepted(verify, "one")
    headers = [token(entra(), kid=f"random-{n}", key=rsa_key("one")) for n in range(20)]
    for n in range(1000):
        with pytest.raises(IdentityError):
            verify.verify(headers[n % 20] if n < 20 else _renamed(headers[0], n))
    assert issuer.fetched <= 2
    assert accepted(verify, "one")


def test_an_unknown_key_asks_the_issuer_once_and_then_for_nothing(
    issuer: TestIssuer, verify: TokenVerifier, moment: Moment
) -> None:
    assert accepted(verify, "one")
    moment.now += PAUSE_SECONDS
    assert not accepted(verify, "stray")
    assert issuer.fetched == 2
    moment.now += PAUSE_SECONDS
    assert not accepted(verify, "stray")
    assert issuer.fetched == 2
    # It took no new key's place.
    issuer.keys = [jwk("two")]
    assert accepted(verify, "two")
    assert issuer.fetched == 3
    issuer.keys = [jwk("stray")]
    moment.now += UNKNOWN_SECONDS + 1
    assert accepted(verify, "stray")


def test_a_hanging_issuer_holds_up_only_who_needs_a_new_key_and_not_many_of_them(
    issuer: TestIssuer, verify: TokenVerifier, moment: Moment
) -> None:
    assert accepted(verify, "one")
    moment.now += PAUSE_SECONDS
    issuer.hanging, _ = threading.Event(), issuer.reached.clear()
    answers = [threading.Event() for _ in range(WAITING)]
    with ThreadPoolExecutor(WAITING) as pool:
        waiting = [pool.submit(_then, answers[n], partial(accepted, verify, "two")) for n in range(WAITING)]
        assert issuer.reached.wait(10)
        cache = next(iter(verify._issuers.values())).keys
        _until(lambda: cache._waiting == WAITING)
        # Known keys are answered at once, and whoever would make the queue longer is told so.
        assert accepted(verify, "one")
        moment.now += FRESH_SECONDS + 1
        assert accepted(verify, "one")
        with pytest.raises(StoreUnavailableError):
            accepted(verify, "three")
        assert not any(done.is_set() for done in answers)
        issuer.keys = [jwk("one"), jwk("two")]
        issuer.hanging.set()
        assert all(w.result(10) for w in waiting)
    assert issuer.fetched == 2


def test_whoever_waits_for_a_new_key_waits_for_a_bounded_time(
    issuer: TestIssuer, moment: Moment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keys, "WAIT_SECONDS", 0.05)
    issuer.hanging = threading.Event()
    cache = KeyCache(partial(fetch_keys, settings(issuer)), moment)
    for _ in range(2):
        with pytest.raises(StoreUnavailableError) as told:
            cache.find("one")
        assert 1 <= told.value.retry_after <= PAUSE_SECONDS
    issuer.hanging.set()


def test_an_old_set_serves_while_the_issuer_fails_but_not_for_ever(
    issuer: TestIssuer, verify: TokenVerifier, moment: Moment
) -> None:
    assert accepted(verify, "one")
    issuer.answer = (500, {}, b"")
    moment.now += FRESH_SECONDS + 1
    assert accepted(verify, "one")
    assert accepted(verify, "one")
    assert issuer.fetched == 2
    with pytest.raises(StoreUnavailableError):
        accepted(verify, "two")
    moment.now += KEPT_SECONDS
    with pytest.raises(StoreUnavailableError):
        accepted(verify, "one")
    issuer.answer = None
    moment.now += PAUSE_SECONDS
    assert accepted(verify, "one")


@pytest.mark.parametrize(
    "answer",
    [
        (302, {"Location": "https://keys.example/keys"}, b""),
        (200, {}, b"not json"),
        (200, {}, b"[]"),
        (200, {}, b"[" * 100_000),
        (200, {}, b'{"keys": {}}'),
        (200, {}, b'{"keys": []}'),
        (200, {}, json.dumps({"keys": [{"kty": "oct", "kid": "one", "k": "c2VjcmV0"}]}).encode()),
        (200, {}, json.dumps({"keys": [jwk("one", use="enc")]}).encode()),
        (200, {}, json.dumps({"keys": [{**jwk("one"), "d": "AQAB"}]}).encode()),
        (200, {}, json.dumps({"keys": [jwk("one"), jwk("one", rsa_key("two"))]}).encode()),
        (200, {}, b" " * (keys.MOST_BYTES + 1)),
    ],
    ids=[
        "a redirect", "no JSON", "a list", "nested without end", "keys that are no list", "no keys", "a shared secret",
        "a key for encryption", "a private key", "two keys of one id", "too much",
    ],
)  # fmt: skip
def test_what_is_no_set_of_keys_is_not_taken_for_one(
    issuer: TestIssuer, verify: TokenVerifier, answer: tuple[int, dict[str, str], bytes]
) -> None:
    issuer.answer = answer
    with pytest.raises(StoreUnavailableError):
        accepted(verify, "one")


def _then(done: threading.Event, work: Callable[[], bool]) -> bool:
    try:
        return work()
    finally:
        done.set()


def _until(found: Callable[[], bool]) -> None:
    for _ in range(1000):
        if found():
            return
        threading.Event().wait(0.01)
    raise AssertionError("it did not come about")


def _renamed(header: str, number: int) -> str:
    """The same token under another key id; its signature is of no interest."""
    import jwt

    _, payload, signature = header.removeprefix("Bearer ").split(".")
    head = jwt.utils.base64url_encode(json.dumps({"alg": "RS256", "typ": "JWT", "kid": f"random-{number}"}).encode())
    return f"Bearer {head.decode()}.{payload}.{signature}"
