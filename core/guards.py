"""Settings of two guards of the query plane: asking the source again, and how often anybody may ask."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator

AZURE_DEVOPS_SCOPE = "499b84ac-1321-427f-aa17-267ca6975798/.default"


class LateBindingSettings(BaseModel):
    """From which label on, and how, an item is confirmed by its source for each question.

    `on_behalf_of` asks the source as the person who asks; `permissions` reads the source's rule and membership of the
    moment with the connectors' credentials.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    label: str | None = Field(default=None, description="from this label on; null: no item is confirmed by its source")
    method: Literal["on_behalf_of", "permissions"] = "on_behalf_of"
    deadline: float = Field(default=1.5, gt=0, le=30, description="seconds; what is not confirmed by then is not shown")
    pace: float = Field(
        default=0.5, gt=0, le=30, description="seconds; the stage ends at a multiple of it, whatever the source said"
    )
    candidates: int = Field(default=32, ge=1, le=500, description="items that are confirmed for one question at most")
    concurrency: int = Field(default=32, ge=1, le=256, description="requests to sources at once, of a process")
    tenant: str | None = Field(default=None, description="the tenant in which tokens are exchanged")
    client_id: str | None = Field(default=None, description="the application that exchanges askers' tokens")
    client_secret: SecretStr | None = Field(default=None, description="its secret")
    authority: str = Field(default="https://login.microsoftonline.com", description="where tokens are exchanged")
    azure_devops_url: str | None = Field(default=None, description="https://dev.azure.com/{organization}")
    azure_devops_scope: str = AZURE_DEVOPS_SCOPE
    graph_url: str | None = Field(default=None, description="https://graph.microsoft.com/v1.0")
    graph_scope: str = "https://graph.microsoft.com/.default"

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.pace > self.deadline:
            raise ValueError("pace is at most the deadline")
        return self


class RateLimitSettings(BaseModel):
    """How often one asker, and all askers of one agent together, may ask. 0 a minute: no limit."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    asker_per_minute: int = Field(default=60, ge=0, description="questions of one asker; 0: no limit")
    asker_burst: int = Field(default=30, ge=1, description="of these, how many at once")
    agent_per_minute: int = Field(default=600, ge=0, description="questions through one agent; 0: no limit")
    agent_burst: int = Field(default=120, ge=1, description="of these, how many at once")
