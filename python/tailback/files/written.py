"""What a user writes down, in YAML or JSON, checked when it is read."""

from pydantic import BaseModel, ConfigDict


class Written(BaseModel):
    """A mapping of such a file: it has no other keys than these, and does not change."""

    model_config = ConfigDict(extra="forbid", frozen=True)
