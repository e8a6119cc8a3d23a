"""A worker's way of taking messages that whatever else stands in its queue can't end."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final

from celery.worker.consumer import Consumer
from kombu.transport.redis import Channel

log = logging.getLogger(__name__)

# What reading something as a message raises where it is none.
_UNREADABLE: Final = (TypeError, ValueError, LookupError, AttributeError)


class UnshakenConsumer(Consumer):  # type: ignore[misc]
    """Throws away what can't be read as a message of ours. Otherwise it would end the worker that takes it, which puts
    it back, and so every worker after that one."""

    def ensure_connected(self, conn: Any) -> Any:
        """As Celery's; what comes over the connection is read by `UnshakenChannel`."""
        if issubclass(conn.transport.Channel, Channel):
            conn.transport.Channel = UnshakenChannel
        return super().ensure_connected(conn)

    def create_task_handler(self, *given: Any, **more: Any) -> Callable[[Any], None]:
        """As Celery's, for messages of any shape."""
        take = super().create_task_handler(*given, **more)

        def take_or_drop(message: Any) -> None:
            try:
                take(message)
            except _UNREADABLE as e:
                _tell(e)
                message.reject_log_error(log, self.connection_errors)

        return take_or_drop


class UnshakenChannel(Channel):
    """Reads from Redis; what is not even an envelope was taken out of the queue by that, and is gone."""

    def _brpop_read(self, **options: Any) -> Any:
        try:
            return super()._brpop_read(**options)  # type: ignore[no-untyped-call]
        except _UNREADABLE as e:
            _tell(e)
            return True


def _tell(error: Exception) -> None:
    # By its kind only: its words may hold what was sent.
    log.error("a message that can't be read was thrown away (%s)", type(error).__name__)
