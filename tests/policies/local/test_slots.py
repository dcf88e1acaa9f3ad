"""Slots attend to their own tokens only, however many of the slots are busy."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import Tensor

from practicum.policies.local.slots import BLOCK, SlotCache, SlotLayout

LAYER, SLOTS, TOKENS, HEADS, KEY_HEADS, DIM = 1, 9, 24, 6, 2, 8
CONFIG = SimpleNamespace(
    num_hidden_layers=2, num_attention_heads=HEADS, num_key_value_heads=KEY_HEADS, head_dim=DIM
)


def attend_one(q_H_D: Tensor, keys_T_K_D: Tensor, values_T_K_D: Tensor) -> Tensor:
    keys, values = (t.repeat_interleave(HEADS // KEY_HEADS, 1) for t in (keys_T_K_D, values_T_K_D))
    scores_H_T = torch.einsum("hd,thd->ht", q_H_D, keys) / DIM**0.5
    return torch.einsum("ht,thd->hd", scores_H_T.softmax(-1), values)


RUNS = [(6, 0, 3), (7, 4, 5)]


@pytest.mark.parametrize("at_once", [True, False], ids=["x86", "others"])
@pytest.mark.parametrize(
    ("single", "runs"),
    [
        pytest.param([0, 1, 2, 3], [], id="every slot"),
        pytest.param([0, 2, 3, 5], [], id="most slots"),
        pytest.param([1, 8], [], id="few slots"),
        pytest.param([0, 2, 3, 5], RUNS, id="slots and runs"),
        pytest.param([], RUNS, id="only runs"),
    ],
)
def test_rows_see_the_tokens_of_their_slot_up_to_themselves(
    monkeypatch: pytest.MonkeyPatch,
    single: list[int],
    runs: list[tuple[int, int, int]],
    at_once: bool,
) -> None:
    monkeypatch.setattr("practicum.policies.local.slots._AT_ONCE", at_once)
    torch.manual_seed(0)
    cache = SlotCache(CONFIG, SLOTS, TOKENS, torch.float32, torch.device("cpu"))
    content = cache.values_L_2_P_T_K_D
    content.copy_(torch.randn(content.shape))
    before = content.clone()
    rows = [(slot, 3 + 2 * slot) for slot in single]
    rows += [(slot, start + i) for slot, start, length in runs for i in range(length)]
    slots, positions = np.array(rows).T
    q = torch.randn(len(rows), HEADS, DIM)
    k, v = torch.randn(2, len(rows), KEY_HEADS, DIM)
    layout = SlotLayout(cache, slots, positions, len(single), runs)
    out = layout.attend(LAYER, q, k, v)
    before[LAYER, 0, slots, positions], before[LAYER, 1, slots, positions] = k, v
    assert torch.equal(content, before), "nothing else is written"
    for row, (slot, position) in enumerate(rows):
        keys, values = before[LAYER, :, slot, : position + 1]
        torch.testing.assert_close(out[row], attend_one(q[row], keys, values))


def test_slots_keep_what_they_hold_wherever_they_lie() -> None:
    torch.manual_seed(0)
    slots = 3 * BLOCK + 5
    cache = SlotCache(CONFIG, slots, TOKENS, torch.float32, torch.device("cpu"))
    held = torch.randn(slots, TOKENS, KEY_HEADS, DIM)
    random = np.random.default_rng(0)
    lengths = random.integers(1, TOKENS, slots)
    for slot, length in enumerate(lengths):
        cache.note(np.full(length, slot), np.arange(length))
        cache.values_L_2_P_T_K_D[:, :, cache.places_S[slot], :length] = held[slot, :length]
    for _ in range(5):
        busy = np.flatnonzero(random.random(slots) < 0.8)
        cache.arrange(busy, lengths[busy])
        order = np.lexsort((cache.places_S[busy], cache.places_S[busy] // BLOCK))
        by_block = np.split(lengths[busy][order], range(BLOCK, len(busy), BLOCK))
        assert all(a.min() >= b.max() for a, b in pairwise(by_block)), "the longest lie together"
        assert sorted(cache.places_S) == list(range(slots + 1))
        for slot in range(slots):
            found = cache.values_L_2_P_T_K_D[:, :, cache.places_S[slot], : lengths[slot]]
            assert (found == held[slot, : lengths[slot]]).all()
        rows = (busy, lengths[busy] - 1)
        q = torch.randn(len(busy), HEADS, DIM)
        k = v = held[rows]
        out = SlotLayout(cache, *rows, len(busy), []).attend(LAYER, q, k, v)
        for row, slot in enumerate(busy):
            seen = held[slot, : lengths[slot]]
            torch.testing.assert_close(out[row], attend_one(q[row], seen, seen))
    cache.copy(0, slots - 1, 1)
    assert (cache.values_L_2_P_T_K_D[:, :, cache.places_S[slots - 1], 0] == held[0, 0]).all()
