"""What a web framework would tell a tracer by itself, wherever a process sets one up: nothing.

FastAPI (seen in 0.165) makes spans and logs of its own as soon as there is an OpenTelemetry provider. They hold the
query string (topics, terms, addresses) and the messages of exceptions, which quote the text that they choked on.
Earlier versions take the option and do nothing with it.
"""

from __future__ import annotations

from typing import Any, Final

NO_TELEMETRY: Final[Any] = {
    "tracing": False,
    "metrics": False,
    "logs": False,
    "operation_spans": False,
    "auto_configure": False,
}
