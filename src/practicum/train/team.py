"""Several processes that train one model, as `torchrun` starts them.

The first process plays, evaluates and writes; it hands every lesson to the others, and each
computes the gradient of its own micro-batches. Gradients are summed over all, so every
process makes the same step, and the same one that a single process would make.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

LONGEST_WAIT = timedelta(days=7)
"""The others wait while the first one plays and evaluates; a dead one is the launcher's to see."""


@dataclass(frozen=True)
class Team:
    """A process and how many it works with; alone, it does nothing."""

    rank: int = 0
    size: int = 1

    @property
    def leads(self) -> bool:
        """Whether this is the process that plays and writes."""
        return self.rank == 0

    def own(self, count: int) -> range:
        """Which of so many micro-batches are this process's."""
        return range(self.rank, count, self.size)

    def send(self, lesson: Any) -> None:
        """Hand something to all others."""
        assert self.leads
        if self.size > 1:
            dist.broadcast_object_list([lesson], src=0)

    def receive(self) -> Any:
        """Wait for what the first process sends."""
        assert not self.leads
        box: list[Any] = [None]
        dist.broadcast_object_list(box, src=0)
        return box[0]

    def gather(self, value: Any) -> list[Any]:
        """What every process has, in their order."""
        if self.size == 1:
            return [value]
        values: list[Any] = [None] * self.size
        dist.all_gather_object(values, value)
        return values

    @torch.no_grad()
    def agree(self, tensors: Sequence[Tensor]) -> None:
        """Take over the first process's values."""
        if self.size > 1:
            for tensor in tensors:
                dist.broadcast(tensor, src=0)

    @torch.no_grad()
    def add_gradients(self, parameters: Sequence[torch.nn.Parameter | Tensor]) -> None:
        """Sum gradients over all processes; who has none, having had no micro-batch, adds zero."""
        if self.size == 1:
            return
        told = self.gather([parameter.grad is not None for parameter in parameters])
        used = [p for p, *has in zip(parameters, *told, strict=True) if any(has)]
        gradients = [p.grad if p.grad is not None else torch.zeros_like(p) for p in used]
        flat = torch.cat([gradient.reshape(-1) for gradient in gradients])
        dist.all_reduce(flat)
        parts = flat.split([gradient.numel() for gradient in gradients])
        for parameter, part in zip(used, parts, strict=True):
            parameter.grad = part.view_as(parameter)


ALONE = Team()


@contextmanager
def joined() -> Iterator[Team]:
    """The team a launcher started this process in; without one, it is alone."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1:
        yield ALONE
        return
    backend = "gloo"
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        backend = "cpu:gloo,cuda:nccl"
    dist.init_process_group(backend, timeout=LONGEST_WAIT)
    try:
        yield Team(dist.get_rank(), size)
    finally:
        dist.destroy_process_group()
