"""A tokenizer for TRL whose every answer is one call of our environment's tool.

TRL plays environments whose actions are tool calls in the model's own syntax, with a schema in
the prompt. Ours have one action format that writes the prompt and reads the answer, so the
template here writes what our renderer does and the whole answer is the tool's argument.
"""

from __future__ import annotations

import re
import sys
from typing import Any

from practicum.policies.rendering import Renderer

TOOL = "act"
ARGUMENT = "answer"


def prepare_tokenizer(tokenizer: Any) -> Any:
    """Change a tokenizer in place so that TRL builds the sequences our own trainer does."""
    written = Renderer(tokenizer).as_jinja()
    tokenizer.chat_template = written.template
    # The reply that ends an episode is longer than any model reads; it is dropped, not read.
    tokenizer.model_max_length = sys.maxsize
    tokenizer.response_template = {
        "defaults": {"role": "assistant"},
        "start_anchor": written.answer_opener,
        "fields": {
            "tool_calls": {
                "open_pattern": "^",
                # Any answer, even an empty or an unfinished one, is one call.
                "close_pattern": rf"{re.escape(written.answer_end)}\s*|\Z",
                "repeats": True,
                "content": "text",
                "content_args": {"strip": False},
                "transform": {
                    "type": "function",
                    "function": {"name": TOOL, "arguments": {ARGUMENT: "{content}"}},
                },
            }
        },
    }
    return tokenizer
