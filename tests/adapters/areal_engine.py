"""Stands in for AReaL's inference engine, which needs a GPU: says what a script says.

The script is a file of answers by a mark that the prompt must hold; which of them is due follows
from the answers that the prompt holds already. What was asked and said is written to a log.
"""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from areal.api import ModelRequest, ModelResponse
from areal.utils.hf_utils import load_hf_tokenizer


class ScriptedEngine:
    """What AReaL's proxy and our rollout workflow ask of an engine, and nothing else."""

    def __init__(self, folder: str, max_tokens: int = 4096) -> None:
        self.folder = Path(folder)
        self.tokenizer = load_hf_tokenizer(str(self.folder / "tokenizer"))
        agent = SimpleNamespace(
            tool_call_parser="qwen",
            reasoning_parser="qwen3",
            engine_max_tokens=max_tokens,
            chat_template_type="concat",
            session_timeout_seconds=600,
            admin_api_key="areal-admin-key",
        )
        self.config = SimpleNamespace(
            tokenizer_path=str(self.folder / "tokenizer"), lora_name="", agent=agent, backend=""
        )
        opener = self.tokenizer.apply_chat_template(
            [{"role": "user", "content": "x"}], tokenize=False, add_generation_prompt=True
        )
        self._opener = opener.rpartition("x")[2].partition(self.tokenizer.eos_token)[2].lstrip()

    def initialize(self, *args: Any, **kwargs: Any) -> None:
        pass

    def get_version(self) -> int:
        return 3

    def destroy(self) -> None:
        pass

    async def agenerate(self, request: ModelRequest) -> ModelResponse:
        prompt = self.tokenizer.decode(request.input_ids)
        script = json.loads((self.folder / "script.json").read_text())
        (mark,) = [mark for mark in script if mark in prompt]
        text = script[mark][prompt.count(self._opener) - 1]
        said = self.tokenizer.encode(text, add_special_tokens=False)
        said.append(self.tokenizer.eos_token_id)
        images = len(request.image_data or ())
        self._log({"mark": mark, "prompt": request.input_ids, "said": said, "images": images})
        return ModelResponse(
            input_tokens=list(request.input_ids),
            output_tokens=said,
            output_logprobs=[-n / 16 for n in range(len(said))],
            output_versions=[3] * len(said),
            stop_reason="stop",
            tokenizer=self.tokenizer,
        )

    def _log(self, entry: dict[str, Any]) -> None:
        with (self.folder / "log.jsonl").open("a") as log:
            log.write(json.dumps(entry) + "\n")
