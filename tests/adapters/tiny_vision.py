"""A vision-language model of random weights with its processor, and an engine that computes it."""

from __future__ import annotations

import base64
import io
from types import SimpleNamespace
from typing import Any

import torch
from areal.api import ModelRequest, ModelResponse
from PIL import Image as Picture
from tiny_models import byte_tokenizer
from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration, Qwen2VLImageProcessor

from practicum.adapters.areal.engine import Reading
from practicum.policies.pictures import PictureReader
from practicum.policies.rendering import Renderer

TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n"
    "{% if message.content is string %}{{ message.content }}{% else %}"
    "{% for part in message.content %}{% if part.type == 'image' %}"
    "<|vision_start|><|image_pad|><|vision_end|>{% else %}{{ part.text }}{% endif %}{% endfor %}"
    "{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
MARKS = ("<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>")


def make_reading() -> Reading:
    """How the model reads.

    Its processor is made by hand: loading one needs torchvision for videos, whose common builds
    need CUDA's libraries.
    """
    tokenizer = byte_tokenizer()
    tokenizer.add_special_tokens(
        {"additional_special_tokens": list(MARKS)}, replace_extra_special_tokens=False
    )
    tokenizer.chat_template = TEMPLATE
    processor = SimpleNamespace(
        image_processor=Qwen2VLImageProcessor(min_pixels=56 * 56, max_pixels=448 * 448),
        image_token="<|image_pad|>",
        chat_template=TEMPLATE,
    )
    pictures = PictureReader(processor, tokenizer)
    return Reading(tokenizer, processor, Renderer(tokenizer, pictures=pictures), pictures)


def make_model(tokenizer: Any) -> Any:
    """A model of two small layers each for words and pictures."""
    torch.manual_seed(0)
    ids = {mark: tokenizer.convert_tokens_to_ids(mark) for mark in MARKS}
    config = Qwen2_5_VLConfig(
        text_config={
            "vocab_size": len(tokenizer),
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "max_position_embeddings": 4096,
            "rope_scaling": {"type": "mrope", "mrope_section": [1, 1, 2], "rope_type": "default"},
        },
        vision_config={
            "depth": 2,
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_heads": 4,
            "out_hidden_size": 32,
            "fullatt_block_indexes": [1],
        },
        vision_start_token_id=ids["<|vision_start|>"],
        vision_end_token_id=ids["<|vision_end|>"],
        image_token_id=ids["<|image_pad|>"],
        video_token_id=ids["<|video_pad|>"],
    )
    return Qwen2_5_VLForConditionalGeneration(config).eval()


class VisionEngine:
    """Says what a script says, with the log-probabilities that the model gives it."""

    def __init__(self, model: Any, reading: Reading, answers: list[str]) -> None:
        self.model = model
        self.reading = reading
        self.answers = answers

    def get_version(self) -> int:
        return 0

    async def agenerate(self, request: ModelRequest) -> ModelResponse:
        tokenizer = self.reading.tokenizer
        turn = tokenizer.decode(request.input_ids).count("<|im_start|>assistant") - 1
        said = [*tokenizer.encode(self.answers[turn]), tokenizer.eos_token_id]
        images = [
            Picture.open(io.BytesIO(base64.b64decode(data))).convert("RGB")
            for data in request.image_data or ()
        ]
        seen = self.reading.processor.image_processor(images=images, return_tensors="pt")
        logprobs = logprobs_of(self.model, [*request.input_ids, *said], dict(seen))
        return ModelResponse(
            input_tokens=list(request.input_ids),
            output_tokens=said,
            output_logprobs=logprobs[-len(said) :],
            output_versions=[0] * len(said),
            tokenizer=tokenizer,
        )


@torch.no_grad()
def logprobs_of(model: Any, ids: list[int], seen: dict[str, Any]) -> list[float]:
    """The log-probability of each token but the first, after all before it."""
    row = torch.tensor([ids])
    kinds = (row == model.config.image_token_id).long()
    logits = model(input_ids=row, mm_token_type_ids=kinds, **seen).logits[0, :-1]
    chosen = logits.log_softmax(-1).gather(1, row[0, 1:, None])
    values: list[float] = chosen[:, 0].tolist()
    return values
