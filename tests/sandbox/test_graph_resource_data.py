"""Notifications with resource data can be read by their receiver, by the documented steps, and by nobody else."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import jwt
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, padding, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric import padding as rsa_padding
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from fixtures.sandbox.oidc import CONNECTOR_ID
from tests.sandbox import small
from tests.sandbox.hooked import Hooked
from tests.sandbox.small import Data

MESSAGES = "/teams/getAllMessages"
CHANGE_TRACKING = "0bf30f3b-4a52-48df-9a82-234910c4a086"


def certificate(key: Any) -> bytes:
    """A certificate that a key signs for itself, as DER."""
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "receiver")])
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    made = made.serial_number(1).not_valid_before(datetime(2020, 1, 1, tzinfo=UTC))
    made = made.not_valid_after(datetime(2020, 1, 1, tzinfo=UTC) + timedelta(days=36_500))
    return made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.DER)


@pytest.fixture(scope="module")
def key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


@pytest.fixture(scope="module")
def rich(key: rsa.RSAPrivateKey) -> Data:
    """What a subscription with resource data is asked for with."""
    encoded = base64.b64encode(certificate(key)).decode()
    return {"includeResourceData": True, "encryptionCertificate": encoded, "encryptionCertificateId": "key-1"}


def decrypt(key: rsa.RSAPrivateKey, content: Any) -> Any:
    """The steps of a receiver: unwrap the key, check the signature, then decrypt."""
    oaep = rsa_padding.OAEP(rsa_padding.MGF1(hashes.SHA1()), hashes.SHA1(), None)
    symmetric = key.decrypt(base64.b64decode(content["dataKey"]), oaep)
    data = base64.b64decode(content["data"])
    assert hmac.digest(symmetric, data, "sha256") == base64.b64decode(content["dataSignature"])
    decryptor = Cipher(algorithms.AES(symmetric), modes.CBC(symmetric[:16])).decryptor()
    unpadder = padding.PKCS7(128).unpadder()
    padded = decryptor.update(data) + decryptor.finalize()
    return json.loads(unpadder.update(padded) + unpadder.finalize())


def sent(hooked: Hooked) -> Any:
    """The body of the one delivery that waits."""
    (delivery,) = hooked.take()
    return json.loads(delivery.body)


def test_a_message_is_sent_whole_and_encrypted_to_the_certificate(
    hooked: Hooked, key: rsa.RSAPrivateKey, rich: Data
) -> None:
    made = hooked.subscribe(MESSAGES, **rich)
    assert (made["encryptionCertificateId"], made["encryptionCertificate"]) == ("key-1", None)
    hooked.change(post={"channel": "channel:Web/General", "message": small.message("m2", "the locker is 42")})
    body = sent(hooked)
    assert "locker" not in json.dumps(body)
    content = body["value"][0]["encryptedContent"]
    said = decrypt(key, content)
    state = hooked.server.state
    team, channel = state.ids.team("Web"), state.channel_id("Web", "General")
    served = hooked.graph("GET", f"/teams/{team}/channels/{channel}/messages/{said['id']}").json()
    assert said["body"]["content"] == "the locker is 42"
    assert said == {name: value for name, value in served.items() if name in said}
    der = base64.b64decode(rich["encryptionCertificate"])
    thumbprint = hashlib.sha1(der, usedforsecurity=False).hexdigest().upper()
    assert (content["encryptionCertificateId"], content["encryptionCertificateThumbprint"]) == ("key-1", thumbprint)


def test_each_item_has_a_key_of_its_own(hooked: Hooked, rich: Data) -> None:
    hooked.subscribe(MESSAGES, **rich)
    replies = [small.message("r2")]
    hooked.change(post={"channel": "channel:Web/General", "message": small.message("m2", replies=replies)})
    one, two = (item["encryptedContent"] for item in sent(hooked)["value"])
    assert one["dataKey"] != two["dataKey"]


def test_a_token_of_the_tenant_says_that_it_comes_from_graph(hooked: Hooked, rich: Data) -> None:
    hooked.subscribe(MESSAGES, **rich)
    hooked.change(post={"channel": "channel:Web/General", "message": small.message("m2")})
    (token,) = sent(hooked)["validationTokens"]
    tenant = hooked.server.state.tenant_id
    keys = jwt.PyJWKClient(f"{hooked.server.base_url}/oidc/{tenant}/discovery/v2.0/keys")
    claims = jwt.decode(
        token,
        keys.get_signing_key_from_jwt(token).key,
        algorithms=["RS256"],
        audience=CONNECTOR_ID,
        issuer=f"https://sts.windows.net/{tenant}/",
    )
    assert (claims["appid"], claims["tid"], claims["ver"]) == (CHANGE_TRACKING, tenant, "1.0")


def test_members_and_channels_come_whole_too_and_plain_ones_as_they_were(
    hooked: Hooked, key: rsa.RSAPrivateKey, rich: Data
) -> None:
    hooked.subscribe("/teams/getAllMembers", **rich)
    hooked.subscribe("/teams/getAllChannels", **rich)
    hooked.subscribe("/groups")
    hooked.change(add_member={"team": "Web", "who": "dan"})
    body = sent(hooked)
    plain, member = body["value"]
    assert "encryptedContent" not in plain
    assert decrypt(key, member["encryptedContent"])["displayName"] == "Dan Dale"
    assert len(body["validationTokens"]) == 1  # one application, though there are two subscriptions
    hooked.change(rename={"what": "channel:Web/Partners", "to": "Web/Friends"})
    found = decrypt(key, sent(hooked)["value"][0]["encryptedContent"])
    assert (found["displayName"], found["membershipType"]) == ("Friends", "shared")


def test_the_directory_sends_no_resource_data_and_only_rsa_will_do(hooked: Hooked, rich: Data) -> None:
    refused = hooked.graph("POST", "/subscriptions", hooked.body("/users", **rich))
    assert "not supported on this resource" in refused.json()["error"]["message"]
    curve = base64.b64encode(certificate(ec.generate_private_key(ec.SECP256R1()))).decode()
    refused = hooked.graph("POST", "/subscriptions", hooked.body(MESSAGES, **rich | {"encryptionCertificate": curve}))
    assert "RSA" in refused.json()["error"]["message"]
