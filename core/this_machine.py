"""This machine is asked directly: a proxy that the environment names is for the way out, and would read what was meant
to stay here."""

from __future__ import annotations

from typing import Final

# Names by which a machine reaches itself, as `urlsplit` gives them.
NAMES: Final = frozenset({"127.0.0.1", "::1", "localhost"})
# As `mounts` of an httpx client: for these hosts None takes the client's own transport, whatever HTTP_PROXY says.
NO_PROXY: Final[dict[str, None]] = {
    "all://127.0.0.1": None,
    "all://localhost": None,
    "all://[::1]": None,
}
