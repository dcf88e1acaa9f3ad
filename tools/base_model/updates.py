"""One update of the weights, on a GPU as one captured graph per shape of batch.

The model is so small that launching its kernels one by one takes longer than running them.
A captured graph holds the whole update: taking the batch, both passes, clipping, and the
optimisers, whose learning rates are tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor, nn
from torch.nn import functional

from tools.base_model.model import CraftModel
from tools.base_model.shelves import Shelf

PROMPT_WEIGHT = 0.1
"""Of a token the crafter only reads: little can be learned from names drawn at random."""
MAX_NORM = 1.0
WEIGHT_DECAY = 0.05
_BETAS = (0.9, 0.95)
_MOMENTUM = 0.95
_WARM_UPDATES = 3
"""Before a capture, so that every library has set itself up."""


class Optimisers:
    """AdamW for all weights, or Muon for the matrices inside the layers and AdamW for the rest."""

    def __init__(self, model: CraftModel, lr: float, muon_lr: float | None) -> None:
        device = model.cos.device
        is_cuda = device.type == "cuda"
        inner = [p for p in model.model.layers.parameters() if p.ndim == 2]
        for_muon = inner if muon_lr is not None else []
        others = {id(p) for p in for_muon}
        rest = [p for p in model.parameters() if id(p) not in others]
        zero = torch.zeros((), device=device)
        self._adam = torch.optim.AdamW(
            [
                {"params": [p for p in rest if p.ndim == 2], "weight_decay": WEIGHT_DECAY},
                {"params": [p for p in rest if p.ndim != 2], "weight_decay": 0.0},
            ],
            lr=zero.clone(),
            betas=_BETAS,
            fused=is_cuda,
            capturable=is_cuda,
        )
        self._muon = Muon(for_muon, zero.clone())
        self._rates: list[tuple[Tensor, float]] = [(self._muon.lr, muon_lr or 0.0)]
        self._rates += [(group["lr"], lr) for group in self._adam.param_groups]
        self._model = model

    def set_rate(self, share: float) -> None:
        """Set every learning rate to this share of its peak."""
        for lr, peak in self._rates:
            lr.fill_(peak * share)

    def step(self) -> None:
        """Clip the gradients and change the weights."""
        nn.utils.clip_grad_norm_(self._model.parameters(), MAX_NORM)
        self._adam.step()
        self._muon.step()


class Muon:
    """Momentum whose direction is made orthogonal, for matrices; equal shapes go together."""

    def __init__(self, matrices: Sequence[nn.Parameter], lr: Tensor) -> None:
        self.lr = lr
        by_shape: dict[torch.Size, list[nn.Parameter]] = {}
        for matrix in matrices:
            by_shape.setdefault(matrix.shape, []).append(matrix)
        self._groups = [
            (group, torch.zeros(len(group), *shape, device=lr.device))
            for shape, group in by_shape.items()
        ]

    @torch.no_grad()
    def step(self) -> None:
        """Change the matrices in place."""
        for group, momentum in self._groups:
            gradient = torch.stack([p.grad for p in group if p.grad is not None])
            momentum.lerp_(gradient, 1 - _MOMENTUM)
            direction = orthogonalise(gradient.lerp(momentum, _MOMENTUM))
            scale = self.lr * max(1.0, direction.shape[1] / direction.shape[2]) ** 0.5
            for matrix, change in zip(group, direction.unbind(), strict=True):
                matrix.mul_(1 - self.lr * WEIGHT_DECAY).sub_(scale * change)


def orthogonalise(matrices: Tensor) -> Tensor:
    """Bring the singular values of each matrix near one, by five Newton-Schulz steps."""
    is_tall = matrices.shape[1] > matrices.shape[2]
    x: Tensor = matrices.bfloat16() if matrices.is_cuda else matrices
    x = x.mT if is_tall else x
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(5):
        square = x @ x.mT
        x = 3.4445 * x + (-4.7750 * square + 2.0315 * square @ square) @ x
    x = x.mT if is_tall else x
    return x.to(matrices.dtype)


class Update:
    """The update for batches of one shelf."""

    def __init__(
        self,
        model: CraftModel,
        optimisers: Optimisers,
        shelf: Shelf,
        total: Tensor,
        compute: Callable[[CraftModel, Tensor, Tensor], tuple[Tensor, Tensor]],
    ) -> None:
        self._model = model
        self._optimisers = optimisers
        self._shelf = shelf
        self._total = total
        self._compute = compute
        self._rows = torch.zeros(shelf.num_rows, dtype=torch.long, device=shelf.ids.device)
        self._graph: torch.cuda.CUDAGraph | None = None

    def __call__(self, rows: Tensor) -> None:
        """Update the weights with some documents, and add the loss on answers to the total."""
        self._rows.copy_(rows)
        if self._graph is None:
            self._run()
        else:
            self._graph.replay()

    def capture(self) -> None:
        """Record the update as a graph. The learning rate must be zero: it is run for that."""
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(_WARM_UPDATES):
                self._run()
        torch.cuda.current_stream().wait_stream(stream)
        # Gradients are to lie in the graph's own memory.
        self._model.zero_grad(set_to_none=True)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._run()
        self._graph = graph

    def _run(self) -> None:
        self._model.zero_grad(set_to_none=True)
        ids, is_answer = self._shelf.take(self._rows)
        with autocast(ids.device.type):
            loss, on_answers = self._compute(self._model, ids, is_answer)
        loss.backward()
        self._optimisers.step()
        self._total += on_answers


def answer_loss(
    model: CraftModel, ids: Tensor, is_answer: Tensor, pad: int
) -> tuple[Tensor, Tensor]:
    """The training loss, and the part of it that concerns answers."""
    # The last position has no target; a pad costs nothing, and the logits need no copy.
    targets = functional.pad(ids[:, 1:], (0, 1), value=pad).flatten()
    losses = functional.cross_entropy(model(ids).flatten(0, 1), targets, reduction="none")
    answers = functional.pad(is_answer[:, 1:], (0, 1)).flatten().float()
    read = (targets != pad).float() - answers
    weights = answers + PROMPT_WEIGHT * read
    on_answers = (losses * answers).sum() / answers.sum()
    return (losses * weights).sum() / weights.sum(), on_answers.detach()


def autocast(device: str) -> AbstractContextManager[object]:
    """Compute in bf16 on a GPU; a graph must not keep copies of the weights."""
    if device == "cuda":
        return torch.autocast("cuda", torch.bfloat16, cache_enabled=False)
    return nullcontext()
