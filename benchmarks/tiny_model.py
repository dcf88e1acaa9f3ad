"""A one million parameter Qwen3 with random weights and its own tokenizer, for `train.py`.

    python benchmarks/tiny_model.py FOLDER

The tokenizer is a byte-level BPE of TextCraft's own texts, the chat template ChatML.

The weights are random but for one direction that every token has and that only the end of an
answer looks for: an answer ends with the same chance at every token, and answers differ in
length as those of a real model do, with a mean of 24 tokens.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from train_scene import find_packages_before_benchmarks, load_textcraft, system_text
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from practicum.core.env import Environment
from practicum.envs.text.textcraft.tasks import first_observation

VOCAB_SIZE = 1280
MEAN_ANSWER_TOKENS = 24
MAX_LENGTH = 4096
START, END, PAD = "<|im_start|>", "<|im_end|>", "<|pad|>"

CHAT_TEMPLATE = """\
{%- for message in messages %}
{{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}
"""


def make_tokenizer(environment: Environment) -> PreTrainedTokenizerFast:
    """Learn a vocabulary from the texts that the model will be shown."""
    texts = [first_observation(task) for task in environment.panel("train")]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(
        [system_text(environment), *texts],
        trainers.BpeTrainer(
            vocab_size=VOCAB_SIZE,
            special_tokens=[PAD, START, END],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token=END, pad_token=PAD, model_max_length=MAX_LENGTH
    )
    fast.chat_template = CHAT_TEMPLATE
    return fast


def make_model(tokenizer: PreTrainedTokenizerFast) -> Qwen3ForCausalLM:
    """A Qwen3 of about one million parameters."""
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=VOCAB_SIZE,
        hidden_size=128,
        intermediate_size=320,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=MAX_LENGTH,
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    model = Qwen3ForCausalLM(config)
    _end_answers_by_chance(model, int(tokenizer.eos_token_id))
    return model


@torch.no_grad()
def _end_answers_by_chance(model: Any, end_id: int) -> None:
    inputs = model.get_input_embeddings().weight
    outputs = model.get_output_embeddings().weight
    inputs[:, 0] = 1.0
    outputs[:, 0] = 0.0
    outputs[end_id] = 0.0
    hidden = model.model(torch.arange(VOCAB_SIZE)[None, :256]).last_hidden_state[0, :, 0].mean()
    # The other logits are small, so the end's odds are its exponential over their number.
    outputs[end_id, 0] = math.log((VOCAB_SIZE - 1) / (MEAN_ANSWER_TOKENS - 1)) / hidden


def save_tiny_model(folder: Path) -> int:
    """Write model and tokenizer as a Hugging Face folder; return the number of parameters."""
    tokenizer = make_tokenizer(load_textcraft())
    model = make_model(tokenizer)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return sum(parameter.numel() for parameter in model.parameters())


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: tiny_model.py FOLDER")
    find_packages_before_benchmarks()
    print(f"{save_tiny_model(Path(sys.argv[1])):,} parameters")
