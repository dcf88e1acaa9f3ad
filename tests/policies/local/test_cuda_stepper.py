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
from tiny_models import tiny_model
from torch import Tensor

from practicum.policies.local import engine as engine_module
from practicum.policies.local.engine import EngineOptions
from practicum.policies.local.slots import SlotCache
from practicum.policies.local.stepper import hidden_states
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


def add_and_norm(
    x: Tensor, delta: Tensor | None, weight: Tensor, eps: float
) -> tuple[Tensor, Tensor]:
    total = x if delta is None else x + delta
    wide = total.float()
    scale = (wide.square().mean(-1, keepdim=True) + eps).rsqrt()
    return total, weight * (wide * scale).to(x.dtype)


def rotate_and_keep(
    joint: Tensor,
    rotations: Tensor,
    norms: Tensor | None,
    eps: float,
    slots: Tensor,
    positions: Tensor,
    keys: Tensor,
    values: Tensor,
) -> Tensor:
    num_keys = keys.shape[2]
    q, k, v = joint.split((joint.shape[1] - 2 * num_keys, num_keys, num_keys), 1)
    if norms is not None:
        (_, q), (_, k) = (add_and_norm(x, None, w, eps) for x, w in zip((q, k), norms, strict=True))
    cos, sin = rotations[positions].unsqueeze(2).unbind(1)

    def rotated(x: Tensor) -> Tensor:
        low, high = x.chunk(2, -1)
        return x * cos + torch.cat((-high, low), -1) * sin

    keys[slots, positions], values[slots, positions] = rotated(k), v
    return rotated(q)


def gate(gate_up: Tensor) -> Tensor:
    opened, up = gate_up.chunk(2, -1)
    return torch.nn.functional.silu(opened) * up


class Event:
    def record(self) -> None: ...
    def synchronize(self) -> None: ...


@pytest.fixture(autouse=True)
def stand_in_for_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_ins: dict[str, dict[str, object]] = {
        "row_kernel": {"TILE": TILE, "attend_rows": attend_rows, "attend_tiles": attend_tiles},
        "decoder_kernels": {
            "add_and_norm": add_and_norm,
            "rotate_and_keep": rotate_and_keep,
            "gate": gate,
        },
    }
    for name, functions in stand_ins.items():
        kernels = ModuleType(f"practicum.policies.local.{name}")
        kernels.__dict__.update(functions)
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


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3"])
async def test_logprobs_are_those_of_a_forward_pass(family: str) -> None:
    await promises.test_logprobs_are_those_of_a_forward_pass(family)


@pytest.mark.parametrize("num_steps", [1, 3, 6, 12])
async def test_who_hangs_up_while_steps_are_under_way_harms_nobody(num_steps: int) -> None:
    await promises.test_whoever_hangs_up_frees_the_slot_and_harms_nobody(num_steps)


@pytest.mark.filterwarnings("ignore:mkldnn_matmul failed")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3"])
def test_the_fused_decoder_rounds_where_transformers_does(family: str, dtype: torch.dtype) -> None:
    from practicum.policies.local.cuda_stepper import RowLayout
    from practicum.policies.local.fused import FusedDecoder

    network = tiny_model(family).network.to(dtype)
    for parameter in network.parameters():
        if parameter.dim() == 1:  # norms and biases that do something
            torch.nn.init.uniform_(parameter, 0.5, 1.5)
    ids, slots, positions = torch.arange(20, 40), torch.arange(20) // 10, torch.arange(20) % 10

    def layout() -> RowLayout:
        cache = SlotCache(network.config, 2, 16, dtype, torch.device("cpu"))
        return RowLayout(cache, slots, positions, 20, torch.zeros(3, 0, dtype=torch.long))

    with torch.no_grad():
        fused = FusedDecoder.of(network, 16)
        assert fused is not None
        said = fused.hidden(ids, layout(), torch.arange(20))
        wanted = hidden_states(network, ids, positions, layout())
    # To the bit, but for products of joined matrices, which a library may add up otherwise.
    torch.testing.assert_close(
        said, wanted, rtol=1e-2 if dtype == torch.bfloat16 else 1e-5, atol=1e-5
    )


def test_what_cannot_be_fused_is_left_to_transformers() -> None:
    from practicum.policies.local.fused import FusedDecoder

    dynamic = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10_000.0}
    assert FusedDecoder.of(tiny_model(rope_parameters=dynamic).network, 16) is None
    assert FusedDecoder.of(tiny_model("llama", mlp_bias=True).network, 16) is None
