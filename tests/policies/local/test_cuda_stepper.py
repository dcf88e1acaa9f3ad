"""The GPU's way of stepping (padded shapes, tiles, a step under way), carried out on a CPU.

There is no GPU here: the kernels are stood in for by plain loops over the same arguments, and
graphs are off. The kernels themselves are compared with these loops where Triton is installed.
"""

from __future__ import annotations

import sys
from types import ModuleType

import pytest
import torch
from policies.local import test_engine as promises
from torch import Tensor

from practicum.policies.local import engine as engine_module
from practicum.policies.local.engine import EngineOptions
from practicum.policies.local.slots import SlotCache
from practicum.policies.local.weights import LocalModel

TILE = 16


def attend_one(q_H_D: Tensor, keys_T_K_D: Tensor, values_T_K_D: Tensor) -> Tensor:
    group = q_H_D.shape[0] // keys_T_K_D.shape[1]
    keys = keys_T_K_D.repeat_interleave(group, 1)
    values = values_T_K_D.repeat_interleave(group, 1)
    scores_H_T = torch.einsum("hd,thd->ht", q_H_D, keys) / q_H_D.shape[-1] ** 0.5
    return torch.einsum("ht,thd->hd", scores_H_T.softmax(-1), values)


def attend_rows(q: Tensor, keys: Tensor, values: Tensor, slots: Tensor, last: Tensor) -> Tensor:
    rows = [
        attend_one(q[n], keys[slots[n], : last[n] + 1], values[slots[n], : last[n] + 1])
        for n in range(len(q))
    ]
    return torch.stack(rows)


def attend_tiles(
    q: Tensor, keys: Tensor, values: Tensor, slots: Tensor, starts: Tensor, lengths: Tensor
) -> Tensor:
    out = torch.full_like(q, float("nan"))  # what must not be used
    for m in range(len(slots)):
        for row in range(int(lengths[m])):
            end = int(starts[m]) + row + 1
            at = m * TILE + row
            out[at] = attend_one(q[at], keys[slots[m], :end], values[slots[m], :end])
    # Padding rows are computed by the rest of the network like any other.
    return out.nan_to_num(0.0)


class Event:
    def record(self) -> None: ...
    def synchronize(self) -> None: ...


@pytest.fixture(autouse=True)
def stand_in_for_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    kernels = ModuleType("practicum.policies.local.row_kernel")
    kernels.__dict__.update(TILE=TILE, attend_rows=attend_rows, attend_tiles=attend_tiles)
    monkeypatch.setitem(sys.modules, kernels.__name__, kernels)
    monkeypatch.setattr(Tensor, "pin_memory", lambda tensor: tensor)
    monkeypatch.setattr(torch.cuda, "Event", Event)

    def make_stepper(model: LocalModel, options: EngineOptions) -> object:
        from practicum.policies.local.cuda_stepper import CudaStepper

        cache = SlotCache(
            model.network.config, options.num_slots, options.max_context, model.dtype, model.device
        )
        return CudaStepper(model, cache, use_graphs=False, compile_model=False)

    monkeypatch.setattr(engine_module, "_make_stepper", make_stepper)


@pytest.mark.parametrize(
    "promise",
    [
        promises.test_an_answer_does_not_depend_on_its_company,
        promises.test_repeating_a_run_gives_the_same_bits,
        promises.test_the_next_turn_feeds_only_what_is_new,
        promises.test_members_of_a_group_share_their_prompt,
        promises.test_new_weights_take_over_in_the_middle_of_an_answer,
        promises.test_greedy_takes_the_most_likely_token,
        promises.test_more_conversations_than_slots_all_come_to_their_end,
    ],
    ids=lambda promise: promise.__name__,
)
async def test_the_engine_keeps_its_promises(promise: object) -> None:
    assert callable(promise)
    await promise()


async def test_logprobs_are_those_of_a_forward_pass() -> None:
    await promises.test_logprobs_are_those_of_a_forward_pass("qwen3")


@pytest.mark.parametrize("num_steps", [1, 3, 6, 12])
async def test_who_hangs_up_while_steps_are_under_way_harms_nobody(num_steps: int) -> None:
    await promises.test_whoever_hangs_up_frees_the_slot_and_harms_nobody(num_steps)
