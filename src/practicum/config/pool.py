"""How many machines a pool keeps, and how patient it is with them."""

from __future__ import annotations

from pydantic import Field, model_validator

from practicum.config.base import StrictConfig


class PoolConfig(StrictConfig):
    """Terms of one pool of machines on one host."""

    size: int = Field(1, ge=1)
    """Machines at a time, whatever they are doing."""
    spares: int = Field(1, ge=0)
    """Machines kept ready ahead of demand."""
    starting_at_once: int = Field(4, ge=1)
    """Machines being started or reset at the same time."""
    wait_s: float = Field(600.0, gt=0)
    """How long a caller waits for a machine at most."""
    max_waiting: int = Field(1024, ge=1)
    """Callers that wait at a time; more are turned away."""
    start_timeout_s: float = Field(60.0, gt=0)
    reset_timeout_s: float = Field(60.0, gt=0)
    check_timeout_s: float = Field(10.0, gt=0)
    """Limit for a health check, and for one attempt at taking a machine down."""
    max_failures: int = Field(5, ge=1)
    """Machines that may fail in a row, with none handed over in between, before the pool rests."""
    rest_s: float = Field(30.0, gt=0)
    """How long a pool rests whose machines keep failing, before it tries one again."""

    @model_validator(mode="after")
    def _spares_fit(self) -> PoolConfig:
        if self.spares > self.size:
            raise ValueError(f"spares ({self.spares}) cannot exceed size ({self.size})")
        return self
