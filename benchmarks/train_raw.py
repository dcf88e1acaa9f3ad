"""The floor of training for the benchmark: a bare forward and backward loop; run by `train.py`.

    python train_raw.py SCENE

Plays one update's episodes with our sampler, packs them as our trainer does, and then, for
every line it reads, does with the packs the least that is training: the model, the cross
entropy of the sampled tokens, backward, AdamW. No ratios, no metrics, no master weights.
"""

from __future__ import annotations

import asyncio
import sys
from importlib.metadata import version
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from train_practicum import Side, make_side
from train_scene import Channel, Cost, Scene, Stopwatch, find_packages_before_benchmarks, serve

from practicum.policies.local.attention import PackedLayout
from practicum.policies.local.lean import plain_products
from practicum.policies.local.stepper import hidden_states, lean_hidden_states, output_head
from practicum.rollout.play import play_group
from practicum.train.batch import Pack, episode_samples


async def play_packs(side: Side) -> tuple[list[Pack], int]:
    """One update's micro-batches, and the tokens in them without padding."""
    groups = [play_group(side.table, task, side.config.groups.size) for task in side.tasks]
    played = await asyncio.gather(*groups)
    samples = [
        s
        for group in played
        for e in group.episodes
        for s in episode_samples(e, [1.0] * len(e.turns))
    ]
    return side.trainer.pack(samples), sum(map(len, samples))


def to_device(pack: Pack, device: torch.device) -> tuple[Tensor, ...]:
    """The arrays of a pack, moved ahead of the measurement."""
    arrays = (pack.ids_T, pack.positions_T, pack.predictors_N, pack.targets_N)
    return tuple(torch.from_numpy(array).to(device) for array in arrays)


def main(scene: Scene) -> None:
    channel = Channel()
    side = make_side(scene)
    packs, num_sequence = asyncio.run(play_packs(side))
    network, device = side.policy.model.network, side.policy.model.device
    optimizer = torch.optim.AdamW(network.parameters(), lr=scene.learning_rate, fused=True)
    forward = hidden_states if device.type == "cuda" else lean_hidden_states
    if scene.compile:
        forward = torch.compile(hidden_states, dynamic=False)
    batches = [
        (PackedLayout(pack.lengths, device, pack.parents), to_device(pack, device))
        for pack in packs
    ]
    num_trained = sum(len(pack.targets_N) for pack in packs)

    @plain_products(side.policy.model.dtype)
    def update() -> Cost:
        watch = Stopwatch()
        for layout, (ids_T, positions_T, predictors_N, targets_N) in batches:
            hidden_N = forward(network, ids_T, positions_T, layout, predictors_N)
            logits = output_head(network)(hidden_N).float()
            loss = cross_entropy(logits, targets_N, reduction="sum") / num_trained
            loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if device.type == "cuda":
            torch.cuda.synchronize()
        wall_s, cpu_s = watch.read()
        return Cost(num_trained, num_sequence, wall_s, cpu_s, 0.0, wall_s)

    serve(channel, {name: version(name) for name in ("transformers", "torch")}, update)


if __name__ == "__main__":
    find_packages_before_benchmarks()
    main(Scene.load(Path(sys.argv[1])))
