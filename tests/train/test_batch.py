"""Packs hold every sequence once, shared beginnings too, and train exactly what was sampled."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_models import tiny_model

from practicum.config.train import OptimizerConfig, PackingConfig
from practicum.policies.local.weights import LocalModel
from practicum.train import trainer as trainer_module
from practicum.train.batch import MIN_SHARED, Pack, Sample, pack_samples
from practicum.train.losses import sft_loss
from practicum.train.trainer import LocalTrainer


def make_sample(ids: list[int], is_trained: list[bool], seed: int = 0) -> Sample:
    trained = np.array(is_trained, np.bool_)
    random = np.random.default_rng(seed)
    values = np.where(trained, random.normal(size=len(ids)), 0).astype(np.float32)
    turns = np.where(trained, 0, -1)
    zeros = np.zeros_like(values)
    return Sample(np.array(ids, np.int64), trained, -np.abs(values), values, zeros, turns)


def random_samples(seed: int, num_families: int = 3) -> list[Sample]:
    """Families of random size that begin alike, with turns of random length behind."""
    random = np.random.default_rng(seed)
    system = random.integers(20, 250, int(random.integers(0, 40))).tolist()
    samples: list[Sample] = []
    for _ in range(num_families):
        prompt = system + random.integers(20, 250, int(random.integers(1, 60))).tolist()
        for _ in range(int(random.integers(1, 6))):
            ids, trained = list(prompt), [False] * len(prompt)
            for _ in range(int(random.integers(1, 4))):
                for is_trained in (True, False):
                    count = int(random.integers(1, 12))
                    ids += random.integers(20, 250, count).tolist()
                    trained += [is_trained] * count
            samples.append(make_sample(ids, trained, len(samples)))
    return samples


def unpack(pack: Pack) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """The whole sequences of a pack and their positions, padding left out."""
    bounds = np.cumsum([0, *pack.lengths])
    end = len(pack.lengths) - (pack.num_padding > 0)
    parents = {parent for parent in pack.parents if parent is not None}
    rows = []
    for index in range(end):
        if index in parents:
            continue
        at = np.arange(bounds[index], bounds[index + 1])
        above = pack.parents[index]
        if above is not None:
            at = np.concatenate([np.arange(bounds[above], bounds[above + 1]), at])
        rows.append((tuple(pack.ids_T[at].tolist()), tuple(pack.positions_T[at].tolist())))
    return rows


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(150, 600), st.booleans(), st.booleans())
def test_packs_hold_every_sequence(seed: int, capacity: int, share: bool, pad: bool) -> None:
    samples = random_samples(seed)
    packs = pack_samples(samples, capacity, pad=pad, pad_id=0, share=share)
    rows = [row for pack in packs for row in unpack(pack)]
    assert sorted(ids for ids, _ in rows) == sorted(tuple(s.token_ids.tolist()) for s in samples)
    assert all(positions == tuple(range(len(ids))) for ids, positions in rows)
    for pack in packs:
        size = len(pack.ids_T)
        assert size == sum(pack.lengths) and (size == capacity if pad else size <= capacity)
    computed = sum(pack.num_computed for pack in packs)
    assert computed + sum(pack.num_shared for pack in packs) == sum(map(len, samples))
    trained = sorted(
        (t, float(lp), float(a))
        for s in samples
        for t, lp, a in zip(
            s.token_ids[s.is_trained],
            s.logprobs[s.is_trained],
            s.advantages[s.is_trained],
            strict=True,
        )
    )
    packed = sorted(
        (t, float(lp), float(a))
        for p in packs
        for t, lp, a in zip(p.targets_N, p.logprobs_N, p.advantages_N, strict=True)
    )
    assert packed == trained


def test_a_groups_prompt_is_computed_once() -> None:
    prompt = list(range(20, 60))
    samples = [
        make_sample([*prompt, 100 + i, 5, 6], [False] * len(prompt) + [True] * 3) for i in range(4)
    ]
    (pack,) = pack_samples(samples, 100, pad=False, pad_id=0, share=True)
    assert pack.lengths == (40, 3, 3, 3, 3)
    assert pack.parents == (None, 0, 0, 0, 0)
    assert pack.num_shared == 3 * 40
    # The prompt's last token predicts the first of every answer.
    assert (pack.predictors_N == 39).sum() == 4


def test_a_trained_token_is_never_shared() -> None:
    ids = list(range(20, 70))
    first = make_sample([*ids, 1], [False] * 30 + [True] * 21)
    second = make_sample([*ids, 2], [False] * 45 + [True] * 6)
    (pack,) = pack_samples([first, second], 200, pad=False, pad_id=0, share=True)
    assert pack.num_shared == 30
    assert len(pack.targets_N) == 27


def test_short_beginnings_are_not_shared() -> None:
    ids = list(range(20, 20 + MIN_SHARED - 1))
    samples = [make_sample([*ids, i], [False] * len(ids) + [True]) for i in range(2)]
    (pack,) = pack_samples(samples, 200, pad=False, pad_id=0, share=True)
    assert pack.num_shared == 0


def test_a_family_larger_than_a_pack_is_cut() -> None:
    prompt = list(range(20, 60))
    samples = [
        make_sample([*prompt, *range(i, i + 30)], [False] * 40 + [True] * 30) for i in range(4)
    ]
    packs = pack_samples(samples, 100, pad=False, pad_id=0, share=True)
    assert sorted(pack.lengths for pack in packs) == [(40, 30, 30), (40, 30, 30)]


def test_a_sequence_longer_than_a_pack_is_refused() -> None:
    with pytest.raises(ValueError, match="10 tokens does not fit 9"):
        pack_samples([make_sample([1] * 10, [False] + [True] * 9)], 9, pad=False, pad_id=0)


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3"])
@pytest.mark.parametrize("seed", [1, 2])
def test_sharing_changes_neither_logprobs_nor_gradients(family: str, seed: int) -> None:
    samples = random_samples(seed, num_families=4)
    shared, plain = (learn(tiny_model(family), samples, share) for share in (True, False))
    assert shared[2] < plain[2] == sum(map(len, samples))
    np.testing.assert_allclose(shared[0], plain[0], atol=1e-5)
    for name, gradient in plain[1].items():
        np.testing.assert_allclose(shared[1][name], gradient, atol=1e-5, err_msg=name)


def test_logits_that_are_made_again_change_no_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    samples = random_samples(1, num_families=2)
    _, whole, _ = learn(tiny_model("llama"), samples, False)
    monkeypatch.setattr(trainer_module, "HEAD_TOKENS", 16)
    parts = {}
    for kept in (0, 20, 10_000):  # none, the last part of a pack, all
        logit_bytes = 4 * tiny_model("llama").network.config.vocab_size
        monkeypatch.setattr(trainer_module, "KEPT_LOGIT_BYTES", kept * logit_bytes)
        parts[kept] = learn(tiny_model("llama"), samples, False)[1]
    for name, gradient in whole.items():
        np.testing.assert_allclose(parts[0][name], gradient, atol=1e-6, err_msg=name)
        np.testing.assert_array_equal(parts[0][name], parts[20][name])
        np.testing.assert_array_equal(parts[0][name], parts[10_000][name])


def learn(
    model: LocalModel, samples: list[Sample], share: bool
) -> tuple[list[float], dict[str, np.ndarray], int]:
    """Log-probabilities of all trained tokens by value, gradients by name, tokens computed."""
    trainer = LocalTrainer(model, OptimizerConfig(), PackingConfig(), num_updates=1)
    packs = pack_samples(samples, 300, pad=False, pad_id=0, share=share)
    # By recorded log-probability, which no two tokens share: packs differ in their order.
    scored = [
        (float(recorded), float(said))
        for pack, found in zip(packs, trainer.look(packs), strict=True)
        for recorded, said in zip(pack.logprobs_N, found.logprobs_N, strict=True)
    ]
    gradients: dict[str, np.ndarray] = {}
    for name, parameter in model.network.named_parameters():
        parameter.register_post_accumulate_grad_hook(
            lambda p, name=name: gradients.update({name: p.grad.numpy().copy()})
        )
    trainer.step(packs, lambda scored: (sft_loss(scored.logprobs_N), {}), update=0)
    return [said for _, said in sorted(scored)], gradients, sum(p.num_computed for p in packs)
