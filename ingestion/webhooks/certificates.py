"""The certificate that Graph encrypts resource data for, and the private keys that open it: today's and earlier ones.

A certificate is called by a digest of its public key, so an earlier private key alone is enough to know what was
encrypted for it. Facts: Microsoft Graph documentation, "Change notifications that include resource data".
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, padding
from cryptography.hazmat.primitives.asymmetric import padding as rsa_padding
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
)

from core.errors import ConfigError
from core.settings import WebhookSettings
from ingestion.webhooks.outcomes import Outcome, Refused

_SIZES: Final = range(2048, 4097)
# What is documented, not what one would choose today.
_OAEP: Final = rsa_padding.OAEP(rsa_padding.MGF1(hashes.SHA1()), hashes.SHA1(), None)  # noqa: S303


@dataclass(frozen=True, slots=True)
class Certificate:
    """As a subscription is given it: base64 of its public part, and what it is called."""

    id: str
    encoded: str


class NoKeyError(Exception):
    """What was encrypted was encrypted for none of our keys."""


class ResourceKeys:
    """Private keys by the id of their certificate, and by the thumbprint of today's."""

    def __init__(self, keys: Mapping[str, RSAPrivateKey], thumbprints: Mapping[str, str]) -> None:
        self._keys = dict(keys)
        self._thumbprints = dict(thumbprints)

    def open(self, content: Mapping[str, Any]) -> Mapping[str, Any]:
        """The resource in an item's `encryptedContent`: its signature is checked first. Raises NoKeyError, and Refused
        where it is not what it says."""
        name = str(content.get("encryptionCertificateId") or "")
        thumbprint = str(content.get("encryptionCertificateThumbprint") or "").upper()
        key = self._keys.get(name) or self._keys.get(self._thumbprints.get(thumbprint, ""))
        if key is None:
            raise NoKeyError
        try:
            wrapped, data, signature = (
                base64.b64decode(content[part], validate=True) for part in ("dataKey", "data", "dataSignature")
            )
            secret = key.decrypt(wrapped, _OAEP)
        except (KeyError, TypeError, ValueError, binascii.Error):
            raise Refused(Outcome.FORGED, "its resource data can't be opened") from None
        if not hmac.compare_digest(hmac.digest(secret, data, hashlib.sha256), signature):
            raise Refused(Outcome.FORGED, "the signature of its resource data is wrong")
        try:
            decryptor = Cipher(algorithms.AES(secret), modes.CBC(secret[:16])).decryptor()
            unpadder = padding.PKCS7(algorithms.AES.block_size).unpadder()
            plain = unpadder.update(decryptor.update(data) + decryptor.finalize()) + unpadder.finalize()
            resource = json.loads(plain)
        except (ValueError, RecursionError):
            raise Refused(Outcome.FORGED, "its resource data can't be opened") from None
        if not isinstance(resource, dict):
            raise Refused(Outcome.FORGED, "its resource data is no object")
        return resource


def load_keys(settings: WebhookSettings) -> ResourceKeys | None:
    """The private keys that the settings name; None where they name none. Raises ConfigError."""
    keys: dict[str, RSAPrivateKey] = {}
    thumbprints: dict[str, str] = {}
    if settings.certificate_key is not None:
        key = _private_key(settings.certificate_key, "webhooks.certificate_key")
        keys[certificate_id(key.public_key())] = key
        if settings.certificate is not None:
            found = _certificate(settings.certificate)
            if certificate_id(found.public_key()) not in keys:
                raise ConfigError(
                    "the private key is not that of the certificate",
                    where="webhooks.certificate_key",
                    mend="Name the key with which the certificate was made",
                )
            thumbprint = found.fingerprint(hashes.SHA1()).hex().upper()  # noqa: S303 - its name, no proof
            thumbprints[thumbprint] = certificate_id(key.public_key())
    elif settings.certificate is not None:
        raise ConfigError(
            "a certificate without its private key opens nothing",
            where="webhooks.certificate_key",
            mend="Name the file of its private key, or leave the certificate away",
        )
    for path in settings.previous_certificate_keys:
        key = _private_key(path, "webhooks.previous_certificate_keys")
        keys[certificate_id(key.public_key())] = key
    return ResourceKeys(keys, thumbprints) if keys else None


def load_certificate(settings: WebhookSettings) -> Certificate | None:
    """Today's certificate for new subscriptions; None: notifications carry no resource data. Raises ConfigError."""
    if settings.certificate is None:
        return None
    found = _certificate(settings.certificate)
    return Certificate(certificate_id(found.public_key()), base64.b64encode(found.public_bytes(Encoding.DER)).decode())


def certificate_id(key: Any) -> str:
    """What a certificate is called: the beginning of its public key's digest."""
    raw = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return "key-" + hashlib.sha256(raw).hexdigest()[:32]


def _certificate(path: Path) -> x509.Certificate:
    try:
        found = x509.load_pem_x509_certificate(path.read_bytes())
    except (OSError, ValueError) as e:
        raise _unusable("webhooks.certificate", path, "no PEM certificate", e) from None
    key = found.public_key()
    if not isinstance(key, RSAPublicKey) or key.key_size not in _SIZES:
        raise _unusable("webhooks.certificate", path, "not RSA with 2048 to 4096 bits", None)
    return found


def _private_key(path: Path, where: str) -> RSAPrivateKey:
    try:
        key = load_pem_private_key(path.read_bytes(), None)
    except (OSError, ValueError, TypeError) as e:
        raise _unusable(where, path, "no PEM private key without a passphrase", e) from None
    if not isinstance(key, RSAPrivateKey) or key.key_size not in _SIZES:
        raise _unusable(where, path, "not RSA with 2048 to 4096 bits", None)
    return key


def _unusable(where: str, path: Path, what: str, error: Exception | None) -> ConfigError:
    why = error.strerror if isinstance(error, OSError) and error.strerror else what
    return ConfigError(f"{path} can't be used: {why}", where=where, mend="See docs/webhooks.md for how to make one")
