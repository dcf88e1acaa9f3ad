"""The base model's tokenizer: few tokens per episode, and any text comes back exactly.

A unigram model over bytes in which every piece costs the same, so a text is cut into the
fewest pieces. What the game and the agent always say is one piece each; so is every
Minecraft word, every number up to 99 and every syllable of the invented words.
"""

from __future__ import annotations

import re

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from practicum.agents.react import ReactFormat
from practicum.envs.text.textcraft.env import COMMANDS, RULES
from practicum.envs.text.textcraft.invented import (
    FIRST_WORD_SEED,
    NUM_WORD_SEEDS,
    invented_words,
    real_words,
)
from tools.base_model.corpus import LOOK

PAD, SYSTEM, USER, ASSISTANT, END = "<|pad|>", "<|system|>", "<|user|>", "<|assistant|>", "<|end|>"
SPECIALS = (PAD, SYSTEM, USER, ASSISTANT, END)
MAX_NUMBER = 99

CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|' + message['role'] + '|>' + message['content'] + '<|end|>' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)

_FORMAT = ReactFormat()
_ACTIONS = ("craft", "get", "inventory")
_PHRASES = (
    RULES,
    f"\n\n{_FORMAT.instructions(COMMANDS)}",
    "Crafting commands:",
    "\ncraft",
    "\n\nGoal: craft",
    " using",
    " needs",
    " nothing",
    "Thought: I have",
    f"Thought: {LOOK}I have",
    "Thought:",
    *(f"{before}Action: {action}" for action in _ACTIONS for before in (".\n", "\n", "")),
    "Got",
    "Crafted",
    " minecraft:",
    "Could not find",
    "Could not execute",
    "Could not find enough items to craft minecraft:",
    "Could not find a valid recipe for ItemTagWithCount(item_tag=ItemTag(tag=None, "
    "item_id='minecraft:",
    "'), count=",
    "Inventory:",
    "Inventory: You are not carrying anything.",
    " [",
    "] (",
    "Wrong item format:",
    "Your answer was empty.",
    "Your answer held no action.",
    f" Answer in this form:\n{_FORMAT.shape}",
)
_SYLLABLE = re.compile(r"(?:qu|[^aeiou]+)(?:ai|ou|[aeiou])")


def build_tokenizer() -> PreTrainedTokenizerFast:
    """Make the tokenizer; the same on every machine."""
    pieces = dict.fromkeys(sorted(pre_tokenizers.ByteLevel.alphabet()))
    pieces |= dict.fromkeys(_as_bytes(text) for text in _texts())
    # One cost for all pieces: the cheapest cut is the one with the fewest.
    tokenizer = Tokenizer(models.Unigram([(piece, -1.0) for piece in pieces]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(s, special=True, normalized=False) for s in SPECIALS])
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        eos_token=END,
        clean_up_tokenization_spaces=False,
        model_max_length=2048,
    )
    fast.chat_template = CHAT_TEMPLATE
    return fast


def _texts() -> list[str]:
    words = real_words()
    syllables = sorted(
        {
            syllable
            for seed in range(FIRST_WORD_SEED, FIRST_WORD_SEED + NUM_WORD_SEEDS)
            for word in invented_words(seed)
            for syllable in _SYLLABLE.findall(word)
        }
    )
    codas = ("nd", "rn", "st")
    return [
        *_PHRASES,
        *(f"{space}{number}" for number in range(MAX_NUMBER + 1) for space in (" ", "")),
        *(f"{space}{word}" for word in (*words, *syllables) for space in (" ", "")),
        *codas,
    ]


def _as_bytes(text: str) -> str:
    ((piece, _),) = pre_tokenizers.ByteLevel(
        add_prefix_space=False, use_regex=False
    ).pre_tokenize_str(text)
    return piece
