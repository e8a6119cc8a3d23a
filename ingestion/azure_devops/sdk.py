"""Microsoft's own SDK, made to speak through our client, so that one place knows credential, throttle and retry.

The SDK finds services by resource locations and knows their versions; it also follows redirects, takes a sign-in page
(203) for an answer and drops continuation tokens. So its sessions get a transport that is our client, and it is used
for calls that are not paged.
"""

from __future__ import annotations

import importlib
import io
import os
import sys
import tempfile
from collections.abc import Callable, Mapping
from threading import Lock, RLock
from typing import Any

import requests
from requests.adapters import BaseAdapter
from requests.structures import CaseInsensitiveDict

from core.errors import SourceError
from ingestion.azure_devops.client import AdoClient
from ingestion.azure_devops.faults import ODD_SHAPE

_IMPORTING = Lock()


class Sdk:
    """The SDK's clients for one organization, made at first use."""

    def __init__(self, client: AdoClient) -> None:
        self._client = client
        self._connection: Any = None
        self._made: dict[str, Any] = {}
        self._lock = RLock()

    def security(self) -> Any:
        """SecurityClient: namespaces."""
        return self._get("get_security_client")

    def identity(self) -> Any:
        """IdentityClient: translation of descriptors."""
        return self._get("get_identity_client")

    def work_item_tracking(self) -> Any:
        """WorkItemTrackingClient: classification nodes."""
        return self._get("get_work_item_tracking_client")

    def call(self, what: str, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Run one SDK call; its own complaints become a SourceError that names `what` was asked for."""
        from azure.devops.exceptions import AzureDevOpsClientError, AzureDevOpsServiceError
        from msrest.exceptions import ClientException

        try:
            return function(*args, **kwargs)
        except (AzureDevOpsServiceError, AzureDevOpsClientError, ClientException, *ODD_SHAPE) as e:
            raise SourceError(f"the SDK failed ({type(e).__name__}: {str(e)[:200]})", where=what) from e

    def _get(self, factory: str) -> Any:
        with self._lock:
            if factory not in self._made:
                if self._connection is None:
                    self._connection = _connect(self._client)
                made = self.call(factory, getattr(self._connection.clients_v7_1, factory))
                _reroute(made.config, self._client)
                self._made[factory] = made
            return self._made[factory]


def _connect(client: AdoClient) -> Any:
    _keep_out_of_home()
    from azure.devops.connection import Connection
    from azure.devops.v7_1.location.location_client import LocationClient
    from msrest.authentication import BasicAuthentication

    pat = client.settings.pat.get_secret_value() if client.settings.pat else ""
    connection = Connection(base_url=client.base_url, creds=BasicAuthentication("", pat))
    # The connection asks a client of its own where the services are, and leaves no hook on it: ask in its place.
    location = LocationClient(client.base_url, BasicAuthentication("", pat))
    _reroute(location.config, client)
    try:
        connection._resource_areas = location.get_resource_areas() or []
    except (ValueError, AttributeError) as e:
        raise SourceError(f"no resource areas ({type(e).__name__}: {e})", where=client.base_url) from e
    return connection


def _keep_out_of_home() -> None:
    """Have the SDK keep its two small answers an organization in memory: it would make a folder in the home folder
    when it is imported, and fail where that went away later."""
    with _IMPORTING:
        if "azure.devops._file_cache" not in sys.modules and "AZURE_DEVOPS_CACHE_DIR" not in os.environ:
            with tempfile.TemporaryDirectory(prefix="context-engine-azure-devops-") as folder:
                os.environ["AZURE_DEVOPS_CACHE_DIR"] = folder
                try:
                    importlib.import_module("azure.devops._file_cache")
                finally:
                    del os.environ["AZURE_DEVOPS_CACHE_DIR"]
    caches = importlib.import_module("azure.devops._file_cache")
    for cache in (caches.OPTIONS_CACHE, caches.RESOURCE_CACHE):
        cache.file_name = ""  # no file: the SDK then neither loads nor saves


def _reroute(config: Any, client: AdoClient) -> None:
    adapter = _Adapter(client)

    def configure(session: requests.Session, _global: Any, _local: Any, **kwargs: Any) -> dict[str, Any]:
        session.mount("https://", adapter)
        session.mount("http://", adapter)
        return {**kwargs, "allow_redirects": False}

    config.session_configuration_callback = configure


class _Adapter(BaseAdapter):
    """A transport for `requests` that is our client."""

    def __init__(self, client: AdoClient) -> None:
        super().__init__()
        self._client = client

    def send(
        self,
        request: requests.PreparedRequest,
        stream: bool = False,
        timeout: Any = None,
        verify: Any = True,
        cert: Any = None,
        proxies: Mapping[str, str] | None = None,
    ) -> requests.Response:
        body = request.body
        answer = self._client.exchange(
            request.method or "GET",
            request.url or "",
            raw_body=body.encode() if isinstance(body, str) else body if isinstance(body, bytes) else None,
            # The credential is the client's business.
            headers={k: _str(v) for k, v in request.headers.items() if k.lower() in _PASSED},
        )
        made = requests.Response()
        made.request, made.url = request, request.url or ""
        made.status_code = answer.status_code if answer is not None else 204
        # The body is decoded already, so its old length and encoding no longer hold.
        headers = answer.headers if answer is not None else {}
        made.headers = CaseInsensitiveDict({k: v for k, v in headers.items() if k.lower() in _RETURNED})
        made.encoding = "utf-8"
        made.raw = io.BytesIO(answer.content if answer is not None else b"")
        return made

    def close(self) -> None:
        """Nothing of its own to close."""


_PASSED = frozenset({"accept", "content-type", "x-tfs-session", "x-vss-forcemsapassthrough"})
_RETURNED = frozenset({"content-type", "x-tfs-session", "x-ms-continuationtoken"})


def _str(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
