"""The lean decoder says what transformers says, forwards and backwards, or steps aside."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tiny_models import tiny_model

from practicum.config.train import LoraConfig
from practicum.core.agent import Sampling
from practicum.policies.local.attention import PackedLayout
from practicum.policies.local.engine import Engine, EngineOptions
from practicum.policies.local.lean import LeanDecoder, plain_products
from practicum.policies.local.stepper import hidden_states, lean_hidden_states, output_head
from practicum.policies.local.weights import LocalModel
from practicum.train.trainer import add_adapters

SHAPES: list[dict[str, Any]] = [
    {},
    {"tie_word_embeddings": False},
    {"num_key_value_heads": 4},
    {"rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 10_000.0}},
    {"rope_parameters": {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10_000.0}},
]


def inputs(model: LocalModel, lengths: list[int]) -> tuple[torch.Tensor, torch.Tensor, Any]:
    random = np.random.default_rng(0)
    ids = torch.from_numpy(random.integers(20, 250, sum(lengths)))
    positions = torch.cat([torch.arange(n) for n in lengths])
    return ids, positions, PackedLayout(lengths, model.device)


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3"])
@pytest.mark.parametrize("changes", SHAPES, ids=lambda changes: next(iter(changes), "plain"))
def test_logits_and_gradients_are_those_of_transformers(
    family: str, changes: dict[str, Any]
) -> None:
    model = tiny_model(family, **changes)
    network = model.network
    for parameter in network.parameters():
        if parameter.dim() == 1:  # norms and biases that do something
            torch.nn.init.uniform_(parameter, 0.5, 1.5)
    batch = inputs(model, [50, 3, 17])
    assert LeanDecoder.of(network) is not None
    results = []
    for forward in (lean_hidden_states, hidden_states):
        logits = output_head(network)(forward(network, *batch))
        logits.log_softmax(-1)[:, 5].sum().backward()
        gradients = {name: p.grad.clone() for name, p in network.named_parameters()}
        network.zero_grad()
        results.append((logits.detach(), gradients))
    (lean, lean_gradients), (full, full_gradients) = results
    torch.testing.assert_close(lean, full, atol=1e-4, rtol=1e-4)
    for name, gradient in full_gradients.items():
        assert torch.allclose(lean_gradients[name], gradient, atol=1e-3, rtol=1e-3), name
    with torch.no_grad():
        decoder = LeanDecoder.of(network)
        assert decoder is not None
        copied = decoder.logits(decoder.hidden(*batch))
    torch.testing.assert_close(copied, full, atol=1e-4, rtol=1e-4)


def test_rows_asked_for_are_those_of_the_whole() -> None:
    model = tiny_model()
    batch = inputs(model, [30, 12])
    rows = torch.tensor([3, 29, 29, 41])
    with torch.no_grad():
        whole = lean_hidden_states(model.network, *batch)
        part = lean_hidden_states(model.network, *batch, rows)
    torch.testing.assert_close(part, whole[rows], atol=1e-5, rtol=1e-5)


def test_rotations_are_kept_and_grow_with_the_positions() -> None:
    model = tiny_model()
    with torch.no_grad():
        kept = LeanDecoder.of(model.network)
        assert kept is not None
        for length in (1, 5, 40, 12):
            batch = inputs(model, [length])
            assert torch.equal(kept.hidden(*batch), lean_hidden_states(model.network, *batch))


def test_half_precision_adapters_and_biases_are_left_to_transformers() -> None:
    pytest.importorskip("peft")
    assert LeanDecoder.of(tiny_model().network.to(torch.bfloat16)) is None
    assert LeanDecoder.of(tiny_model("llama", mlp_bias=True).network) is None
    model = tiny_model()
    base = model.network
    adapted = add_adapters(model, LoraConfig())
    assert LeanDecoder.of(adapted.network) is None
    assert LeanDecoder.of(base) is None, "the adapters were put into it"


async def test_changed_weights_reach_the_sampler() -> None:
    model = tiny_model()
    engine = Engine(model, frozenset(), EngineOptions(num_slots=2, max_context=64))
    prompt, greedy = list(range(20, 40)), Sampling(temperature=0, max_tokens=10)
    before = await engine.generate(prompt, 0, greedy, 0)
    model.network.load_state_dict(tiny_model(seed=1).network.state_dict())
    engine.resume(weights_changed=True)
    after = await engine.generate(prompt, 0, greedy, 0)
    fresh = Engine(tiny_model(seed=1), frozenset(), EngineOptions(num_slots=2, max_context=64))
    assert after == await fresh.generate(prompt, 0, greedy, 0)
    assert after.token_ids != before.token_ids


def test_the_switch_of_onednn_is_put_back() -> None:
    before = torch.backends.mkldnn.enabled
    with pytest.raises(KeyError), plain_products(torch.float32):
        raise KeyError
    assert torch.backends.mkldnn.enabled == before
