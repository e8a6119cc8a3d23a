"""Deliveries as the services are documented to send them."""

from __future__ import annotations

import base64
import hmac
import json
import os
from datetime import UTC, datetime, timedelta
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, padding, serialization
from cryptography.hazmat.primitives.asymmetric import padding as rsa_padding
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.x509.oid import NameOID

from ingestion.webhooks.client_state import client_state

NOW = datetime(2031, 3, 7, 12, tzinfo=UTC)
ORGANIZATION = "fjordline"
TENANT = "7a3f2c51-0000-4000-8000-000000000001"
TEAM = "7a3f2c51-0000-4000-8000-00000000000a"
CHANNEL = "19:general@thread.tacv2"
REPO = "7a3f2c51-0000-4000-8000-00000000000b"
SUBSCRIPTION = "7a3f2c51-0000-4000-8000-00000000000c"
KEY = "a key that nobody guesses"
BASE = f"https://dev.azure.com/{ORGANIZATION}/"

Row = dict[str, Any]


def ado(event: str, resource: Row | None, number: int = 17, **more: Any) -> Row:
    """An envelope of Azure DevOps."""
    return {
        "subscriptionId": SUBSCRIPTION,
        "notificationId": number,
        "id": "7a3f2c51-0000-4000-8000-00000000000d",
        "eventType": event,
        "publisherId": "tfs",
        "message": {"text": "a text that must go nowhere", "html": "…", "markdown": "…"},
        "detailedMessage": {"text": "a text that must go nowhere"},
        "resource": resource,
        "resourceVersion": "1.0",
        "resourceContainers": {
            "collection": {"id": SUBSCRIPTION, "baseUrl": BASE},
            "account": {"id": SUBSCRIPTION},
            "project": {"id": SUBSCRIPTION, "baseUrl": BASE},
        },
        "createdDate": NOW.isoformat().replace("+00:00", "Z"),
    } | more


def work_item(number: int, rev: int) -> Row:
    """A work item as `created`, `deleted`, `restored` and `commented` tell it."""
    url = f"{BASE}_apis/wit/workItems/{number}"
    return {"id": number, "rev": rev, "fields": {"System.Title": "a text that must go nowhere"}, "url": url}


def update(number: int, rev: int) -> Row:
    """A work item as `updated` tells it: `id` is the update's."""
    return {
        "id": rev,
        "workItemId": number,
        "rev": rev,
        "fields": {"System.Title": {"oldValue": "old title", "newValue": "new title"}},
        "url": f"{BASE}_apis/wit/workItems/{number}/updates/{rev}",
    }


def push(*branches: str, default: str | None = "refs/heads/main") -> Row:
    """A push."""
    repository = {"id": REPO, "name": "r"} | ({"defaultBranch": default} if default else {})
    updates = [{"name": b, "oldObjectId": "0" * 40, "newObjectId": "1" * 40} for b in branches]
    return {"pushId": 88, "refUpdates": updates, "repository": repository}


def pull_request(number: int) -> Row:
    """A pull request."""
    return {"pullRequestId": number, "repository": {"id": REPO}, "status": "active", "title": "must go nowhere"}


def graph(*items: Row, tokens: list[str] | None = None) -> Row:
    """A request of Graph."""
    return {"value": list(items)} | ({"validationTokens": tokens} if tokens is not None else {})


def notice(resource: str, change: str = "updated", watched: str = "/teams/getAllMessages", **more: Any) -> Row:
    """One notification, of a subscription to `watched`."""
    return {
        "subscriptionId": SUBSCRIPTION,
        "subscriptionExpirationDateTime": (NOW + timedelta(days=2)).isoformat(),
        "clientState": client_state(KEY, watched),
        "changeType": change,
        "tenantId": TENANT,
        "resource": resource,
        "resourceData": {"id": "x", "@odata.type": "#Microsoft.Graph.chatMessage", "@odata.id": resource},
    } | more


def message(root: str, reply: str | None = None) -> str:
    """The resource of a message."""
    place = f"teams('{TEAM}')/channels('{CHANNEL}')/messages('{root}')"
    return place + (f"/replies('{reply}')" if reply else "")


def lifecycle(event: str, watched: str, subscription: str = SUBSCRIPTION) -> Row:
    """A lifecycle event."""
    return {
        "subscriptionId": subscription,
        "subscriptionExpirationDateTime": (NOW + timedelta(days=2)).isoformat(),
        "tenantId": TENANT,
        "clientState": client_state(KEY, watched),
        "lifecycleEvent": event,
    }


def make_certificate() -> tuple[bytes, bytes]:
    """A self-signed certificate and its private key, PEM."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "hooks")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(NOW - timedelta(days=1))
        .not_valid_after(NOW + timedelta(days=365))
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return certificate.public_bytes(serialization.Encoding.PEM), private


def encrypted(content: Row, certificate: bytes, name: str) -> Row:
    """`encryptedContent` for a certificate (PEM) that is called `name`."""
    found = x509.load_pem_x509_certificate(certificate)
    public = found.public_key()
    assert isinstance(public, rsa.RSAPublicKey)
    secret = os.urandom(32)
    padder = padding.PKCS7(128).padder()
    padded = padder.update(json.dumps(content).encode()) + padder.finalize()
    encryptor = Cipher(algorithms.AES(secret), modes.CBC(secret[:16])).encryptor()
    data = encryptor.update(padded) + encryptor.finalize()
    oaep = rsa_padding.OAEP(rsa_padding.MGF1(hashes.SHA1()), hashes.SHA1(), None)
    return {
        "data": base64.b64encode(data).decode(),
        "dataKey": base64.b64encode(public.encrypt(secret, oaep)).decode(),
        "dataSignature": base64.b64encode(hmac.digest(secret, data, "sha256")).decode(),
        "encryptionCertificateId": name,
        "encryptionCertificateThumbprint": found.fingerprint(hashes.SHA1()).hex().upper(),
    }
