"""What a vision-language model of the Qwen-VL kind reads in place of a picture.

In a prompt a picture is a run of one and the same id, one for each patch the model is given,
between the ids that begin and end it. How many there are follows from the picture's size and the
processor's settings; the pixels themselves are needed where the model computes.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from practicum.core.errors import ConfigError, PolicyError
from practicum.core.message import Image

Ids = tuple[int, ...]

REMEMBERED = 256
"""Pictures whose size is kept; a group looks at the same first screen."""
_SLOT = "Qpictureq"


class PictureReader:
    """Pictures under one processor: their ids, and the arrays a model computes with."""

    def __init__(self, processor: Any, tokenizer: Any) -> None:
        """Find out what the chat template writes for a picture."""
        self._processor: Any = getattr(processor, "image_processor", None)
        if not hasattr(self._processor, "merge_size"):
            raise ConfigError(
                f"{type(processor).__name__} is no processor of the Qwen-VL kind: pictures can be "
                "trained on with Qwen2-VL, Qwen2.5-VL and Qwen3-VL"
            )
        self.image_id = int(tokenizer.convert_tokens_to_ids(processor.image_token))
        written = _written(processor, tokenizer)
        piece = tokenizer.encode(written, add_special_tokens=False)
        if piece.count(self.image_id) != 1:
            raise ConfigError(f"the chat template writes {written!r} for one picture")
        at = piece.index(self.image_id)
        self._begin, self._end = tuple(piece[:at]), tuple(piece[at + 1 :])
        self._num_ids = lru_cache(maxsize=REMEMBERED)(self._count)

    def ids(self, image: Image) -> Ids:
        """The ids of one picture, with those that begin and end it."""
        return (*self._begin, *(self.image_id,) * self._num_ids(image), *self._end)

    def arrays(self, images: Sequence[Image]) -> dict[str, Any]:
        """`pixel_values` and `image_grid_thw` of pictures in their order; empty without any."""
        if not images:
            return {}
        read = self._processor(images=[_open(image) for image in images], return_tensors="pt")
        return {name: read[name] for name in ("pixel_values", "image_grid_thw")}

    def num_ids(self, arrays: Mapping[str, Any]) -> int:
        """How many ids stand for the pictures whose arrays these are."""
        if not arrays:
            return 0
        patches = arrays["image_grid_thw"].prod(dim=-1).sum()
        return int(patches) // int(self._processor.merge_size) ** 2

    def type_ids(self, token_ids: Sequence[int]) -> list[int]:
        """For each id 1 if it stands for a part of a picture, else 0."""
        return [int(i == self.image_id) for i in token_ids]

    def _count(self, image: Image) -> int:
        picture = _open(image)
        patches = int(
            self._processor.get_number_of_image_patches(picture.height, picture.width, {})
        )
        return patches // int(self._processor.merge_size) ** 2


def _written(processor: Any, tokenizer: Any) -> str:
    """What stands between the head of a message and its text when a picture comes first."""
    template = getattr(processor, "chat_template", None) or tokenizer.chat_template
    plain = [{"role": "user", "content": [{"type": "text", "text": _SLOT}]}]
    shown = [{"role": "user", "content": [{"type": "image"}, *plain[0]["content"]]}]

    def head(messages: list[Any]) -> str:
        written = tokenizer.apply_chat_template(
            messages, chat_template=template, tokenize=False, add_generation_prompt=True
        )
        return str(written).partition(_SLOT)[0]

    before, after = head(plain), head(shown)
    if not after.startswith(before):
        raise ConfigError(
            f"the chat template puts a picture elsewhere than before the text: {after[-60:]!r}"
        )
    return after.removeprefix(before)


def _open(image: Image) -> Any:
    try:
        from PIL import Image as Picture
        from PIL import UnidentifiedImageError
    except ImportError as error:
        raise ConfigError("reading pictures needs pillow: pip install pillow") from error
    try:
        return Picture.open(io.BytesIO(image.data)).convert("RGB")
    except (UnidentifiedImageError, OSError) as error:
        raise PolicyError(f"a picture cannot be read: {error}", kind="picture") from error
