"""What a recording proxy can be told."""

from __future__ import annotations

from pydantic import Field

from practicum.config.base import StrictConfig
from practicum.config.engines import HfConfig, VllmConfig
from practicum.config.eval import EndpointConfig


class ProxyConfig(StrictConfig):
    """A proxy in front of one model."""

    upstream: str
    """`openai:MODEL@BASE_URL`, `hf:PATH` or `vllm:PATH`."""
    tokenizer: str | None = None
    """Folder with the tokenizer of an `openai:` model: the server is then asked in token ids."""
    host: str = "127.0.0.1"
    port: int = Field(0, ge=0, le=65535)
    """0 takes a free one."""
    admin_key_env: str | None = None
    """Variable with the admin key; unset: a new one is made and printed."""
    ttl_s: float = Field(3600, gt=0)
    """A session that is not used for so long is forgotten."""
    max_sessions: int = Field(4096, ge=1)
    """Sessions held at once; more are turned away."""
    capacity: int | None = Field(None, ge=0)
    """Sessions that may start before `/grant_capacity` allows more; unset: any number."""
    max_body_mb: float = Field(64, gt=0)
    """Of one request, pictures included."""
    concurrency: int = Field(16, ge=1)
    """Answers that `hf` samples at once."""
    endpoint: EndpointConfig = EndpointConfig()
    hf: HfConfig = HfConfig()
    vllm: VllmConfig = VllmConfig()
