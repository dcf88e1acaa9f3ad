"""Steps of the sampler on a GPU: CUDA graphs, one for each of a few shapes.

A step has rows of two kinds, each padded up to a shape of its own: single rows, one for every
slot that samples, and tiles of prompt tokens, sixteen consecutive ones of a slot.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from practicum.policies.local.decoder_kernels import rotate_and_keep
from practicum.policies.local.fused import FusedDecoder
from practicum.policies.local.row_kernel import TILE, attend_rows, attend_tiles
from practicum.policies.local.sampling import choose
from practicum.policies.local.slots import SlotCache
from practicum.policies.local.stepper import (
    SAME_AS_SAMPLED,
    Rows,
    Sampled,
    hidden_states,
    output_head,
)
from practicum.policies.local.weights import LocalModel


class RowLayout:
    """Each row is one token of some slot; it sees that slot up to its own position."""

    def __init__(
        self,
        cache: SlotCache,
        slots_N: Tensor,
        positions_N: Tensor,
        num_single: int,
        tiles_3_M: Tensor,
    ) -> None:
        """The first rows stand alone; the others come in tiles: slot, start and length of each."""
        self._cache = cache.values_L_2_P_T_K_D
        self._slots_N = slots_N
        self._positions_N = positions_N
        self._num_single = num_single
        self._tiles_3_M = tiles_3_M

    def attend(self, layer: int, q_N_H_D: Tensor, k_N_K_D: Tensor, v_N_K_D: Tensor) -> Tensor:
        """Write the rows' keys and values, then attend."""
        keys, values = self._cache[layer]
        keys[self._slots_N, self._positions_N] = k_N_K_D
        values[self._slots_N, self._positions_N] = v_N_K_D
        return self._attend(q_N_H_D, keys, values)

    def attend_joint(
        self,
        layer: int,
        joint_N_J_D: Tensor,
        rotations_T_2_D: Tensor,
        norms_2_D: Tensor | None,
        eps: float,
    ) -> Tensor:
        """The same from queries, keys and values in one tensor, before they are rotated."""
        keys, values = self._cache[layer]
        q_N_H_D = rotate_and_keep(
            joint_N_J_D,
            rotations_T_2_D,
            norms_2_D,
            eps,
            self._slots_N,
            self._positions_N,
            keys,
            values,
        )
        return self._attend(q_N_H_D, keys, values)

    def _attend(self, q_N_H_D: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        count = self._num_single
        single = attend_rows(
            q_N_H_D[:count], keys, values, self._slots_N[:count], self._positions_N[:count]
        )
        if q_N_H_D.shape[0] == count:
            return single
        return torch.cat((single, attend_tiles(q_N_H_D[count:], keys, values, *self._tiles_3_M)))


@dataclass(frozen=True)
class Shape:
    """What a graph is captured for."""

    num_single: int
    num_tiles: int
    num_samples: int
    has_top_p: bool

    @property
    def num_rows(self) -> int:
        """Rows of both kinds."""
        return self.num_single + TILE * self.num_tiles

    @classmethod
    def of(cls, rows: Rows) -> Shape:
        """The smallest shape that holds the rows."""
        num_tiles = sum(-(-length // TILE) for _, _, length in rows.runs)
        return cls(
            bucket(rows.num_single, 16),
            bucket(num_tiles, 4) if num_tiles else 0,
            bucket(len(rows.samples_B), 16),
            bool((rows.top_ps_B < 1).any()),
        )


class CudaStepper:
    """Steps that are queued; the results of one are read while the next one runs."""

    depth = 1

    def __init__(
        self, model: LocalModel, cache: SlotCache, *, use_graphs: bool, compile_model: bool
    ) -> None:
        self.cache = cache
        self.use_graphs = use_graphs
        self.device = model.device
        self._network = model.network
        self._last_ids = torch.zeros(cache.num_slots + 1, dtype=torch.long, device=model.device)
        self._programs: dict[Shape, _Program] = {}
        self._fused: FusedDecoder | None = None
        self._is_fresh = False
        self._hidden = hidden_states
        if compile_model:
            self._hidden = torch.compile(hidden_states, dynamic=True)
        else:
            num_positions = cache.values_L_2_P_T_K_D.shape[3]
            self._fused = FusedDecoder.of(model.network, num_positions)

    def refresh(self) -> None:
        """Copy what is kept of the weights again before the next step."""
        self._is_fresh = False

    @torch.no_grad()
    def launch(self, rows: Rows) -> tuple[Tensor, Any, int]:
        """Queue the step and the copy of its results."""
        if not self._is_fresh and self._fused is not None:
            self._fused.renew()
        self._is_fresh = True
        shape = Shape.of(rows)
        program = self._programs.get(shape)
        if program is None:
            program = self._programs[shape] = _Program(self, shape)
        return program.run(rows)

    def collect(self, handle: tuple[Tensor, Any, int]) -> Sampled:
        """Wait for the results."""
        out_2_B, event, count = handle
        event.synchronize()
        results = out_2_B[:, :count].numpy()
        return results[0].astype(np.int64), results[1].astype(np.float32)

    def compute(self, ints: Tensor, floats: Tensor, shape: Shape) -> Tensor:
        """The step itself, on tensors of fixed shape."""
        rows, samples, tiles = _views(ints, shape)
        ids_R, slots_R, positions_R = rows
        samples_B, targets_B = samples
        uniforms_B, temperatures_B, top_ps_B = floats.view(3, -1)
        ids_R = torch.where(ids_R == SAME_AS_SAMPLED, self._last_ids[slots_R], ids_R)
        layout = RowLayout(self.cache, slots_R, positions_R, shape.num_single, tiles)
        if self._fused is not None:
            hidden_B = self._fused.hidden(ids_R, layout, samples_B)
        else:
            hidden_B = self._hidden(self._network, ids_R, positions_R, layout)[samples_B]
        logits = output_head(self._network)(hidden_B)
        ids_B, logprobs_B = choose(
            logits, temperatures_B, uniforms_B, top_ps_B if shape.has_top_p else None
        )
        self._last_ids[targets_B] = ids_B
        return torch.stack((ids_B.double(), logprobs_B.double()))


class _Program:
    """One shape of step: its input and output buffers, and the graph between them."""

    def __init__(self, stepper: CudaStepper, shape: Shape) -> None:
        self._shape = shape
        self._padding_slot = stepper.cache.num_slots
        num_ints = 3 * shape.num_rows + 2 * shape.num_samples + 3 * shape.num_tiles
        self._ints = torch.zeros(num_ints, dtype=torch.long, device=stepper.device)
        self._floats = torch.ones(3 * shape.num_samples, device=stepper.device)
        # Two steps can be under way: what one reads must not be overwritten by the next.
        self._staging = [
            (
                torch.zeros(num_ints, dtype=torch.long).pin_memory(),
                torch.ones(3 * shape.num_samples).pin_memory(),
                torch.zeros((2, shape.num_samples), dtype=torch.double).pin_memory(),
            )
            for _ in range(3)
        ]
        self._turn = 0
        self._pad(self._staging[0][0])
        self._ints.copy_(self._staging[0][0])

        def compute() -> Tensor:
            return stepper.compute(self._ints, self._floats, shape)

        self._compute = compute
        self._graph: torch.cuda.CUDAGraph | None = None
        if stepper.use_graphs:
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for _ in range(2):
                    compute()
            torch.cuda.current_stream().wait_stream(side)
            self._graph = torch.cuda.CUDAGraph()
            # Another thread may be training meanwhile: what it allocates is no error of ours.
            with torch.cuda.graph(self._graph, capture_error_mode="thread_local"):
                self._out = compute()

    def run(self, rows: Rows) -> tuple[Tensor, Any, int]:
        """Queue the step with these rows."""
        ints, floats, out = self._staging[self._turn % 3]
        self._turn += 1
        self._pad(ints)
        self._fill(ints, floats, rows)
        self._ints.copy_(ints, non_blocking=True)
        self._floats.copy_(floats, non_blocking=True)
        if self._graph is None:
            self._out = self._compute()
        else:
            self._graph.replay()
        out.copy_(self._out, non_blocking=True)
        event = torch.cuda.Event()
        event.record()
        return out, event, len(rows.samples_B)

    def _pad(self, ints: Tensor) -> None:
        """Let every row, sample and tile work on the padding slot."""
        rows, samples, tiles = _views(ints, self._shape)
        rows[0], rows[1], rows[2] = 0, self._padding_slot, 0
        samples[0], samples[1] = 0, self._padding_slot
        tiles[0], tiles[1], tiles[2] = self._padding_slot, 0, 0

    def _fill(self, ints: Tensor, floats: Tensor, rows: Rows) -> None:
        row_views, sample_views, tile_views = _views(ints, self._shape)
        places_R = self._place(rows, tile_views.numpy())
        ids, slots, positions = row_views.numpy()
        ids[places_R], slots[places_R], positions[places_R] = (
            rows.ids_R,
            rows.slots_R,
            rows.positions_R,
        )
        count = len(rows.samples_B)
        samples, targets = sample_views.numpy()
        samples[:count] = places_R[rows.samples_B]
        targets[:count] = rows.slots_R[rows.samples_B]
        draws = floats.view(3, -1).numpy()
        draws[0, :count] = rows.uniforms_B
        draws[1, :count] = rows.temperatures_B
        draws[2, :count] = rows.top_ps_B

    def _place(self, rows: Rows, tiles: np.ndarray) -> np.ndarray:
        """Where each row goes in the padded shape; notes the tiles on the way."""
        places = [np.arange(rows.num_single)]
        tile = 0
        for slot, start, length in rows.runs:
            count = -(-length // TILE)
            span = np.arange(count)
            tiles[0, tile : tile + count] = slot
            tiles[1, tile : tile + count] = start + TILE * span
            tiles[2, tile : tile + count] = np.minimum(TILE, length - TILE * span)
            places.append(self._shape.num_single + TILE * tile + np.arange(length))
            tile += count
        return np.concatenate(places)


def _views(ints: Tensor, shape: Shape) -> tuple[Tensor, Tensor, Tensor]:
    """Rows (ids, slots, positions), samples (rows, slots) and tiles in one buffer."""
    sizes = [3 * shape.num_rows, 2 * shape.num_samples, 3 * shape.num_tiles]
    rows, samples, tiles = ints.split(sizes)
    return rows.view(3, -1), samples.view(2, -1), tiles.view(3, shape.num_tiles)


def bucket(count: int, smallest: int) -> int:
    """The number that a count is padded to: powers of two and, of larger ones, three quarters."""
    size = smallest
    while size < count:
        size *= 2
    return size * 3 // 4 if size > 4 * smallest and count <= size * 3 // 4 else size
