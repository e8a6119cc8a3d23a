"""Where the receiver takes what, below its public address."""

from __future__ import annotations

from typing import Final

AZURE_DEVOPS_PATH: Final = "/hooks/azure-devops"
GRAPH_PATH: Final = "/hooks/graph"
LIFECYCLE_PATH: Final = "/hooks/graph/lifecycle"
