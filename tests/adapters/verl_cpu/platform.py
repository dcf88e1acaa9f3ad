"""A CPU as a platform of verl: one pretended device, collectives over gloo."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import torch
import torch.distributed
from verl.plugin.platform import PlatformBase, PlatformRegistry


def _device_module() -> ModuleType:
    """`torch.cpu`, and answers to what verl asks of a device's memory."""
    module = ModuleType("cpu_device")
    for name in dir(torch.cpu):
        if not name.startswith("__"):
            setattr(module, name, getattr(torch.cpu, name))
    module.is_available = lambda: False  # nothing to measure
    module.device_count = lambda: 1
    module.current_device = lambda: "cpu"
    module.set_device = lambda *_: None
    module.synchronize = lambda *_: None
    module.empty_cache = lambda: None
    module.get_device_name = lambda *_: "CPU"
    module.get_rng_state = torch.get_rng_state
    module.set_rng_state = torch.set_rng_state
    for name in ("memory_allocated", "memory_reserved", "max_memory_allocated"):
        setattr(module, name, lambda *_: 0)
    module.max_memory_reserved = lambda *_: 0
    module.reset_peak_memory_stats = lambda *_: None
    module.mem_get_info = lambda *_: (0, 0)
    return module


@PlatformRegistry.register(platform="cpu")
class CpuPlatform(PlatformBase):
    _module = _device_module()
    device_name = "cpu"
    vendor_name = "cpu"
    device_module = _module

    def is_available(self) -> bool:
        return True

    def current_device(self) -> str:
        return "cpu"  # where others have a number, and as good: verl hands it to torch

    def device_count(self) -> int:
        return 1

    def set_device(self, device_index: int) -> None:
        pass

    def synchronize(self, device_index: int | None = None) -> None:
        pass

    def manual_seed(self, seed: int) -> None:
        torch.manual_seed(seed)

    def manual_seed_all(self, seed: int) -> None:
        torch.manual_seed(seed)

    def set_allocator_settings(self, settings: str) -> None:
        pass

    def empty_cache(self) -> None:
        pass

    def get_device_capability(self, device_index: int = 0) -> tuple[None, None]:
        return None, None

    def communication_backend_name(self) -> str:
        # verl would join the processes by "cpu:gloo,cpu:gloo", which torch refuses: it asks for
        # the name right before and leaves processes alone that are joined already.
        if "RANK" in os.environ and not torch.distributed.is_initialized():
            torch.distributed.init_process_group(
                "cpu:gloo",
                rank=int(os.environ["RANK"]),
                world_size=int(os.environ["WORLD_SIZE"]),
                init_method=os.environ.get("DIST_INIT_METHOD"),
            )
        return "gloo"

    def visible_devices_envvar(self) -> str:
        return "CUDA_VISIBLE_DEVICES"

    @contextmanager
    def nvtx_range(self, msg: str) -> Iterator[None]:
        yield

    def profiler_start(self) -> None:
        pass

    def profiler_stop(self) -> None:
        pass

    def ray_resource_name(self) -> str:
        return "GPU"

    def ray_noset_envvars(self) -> list[str]:
        return []

    def is_ipc_supported(self) -> bool:
        return False

    def cudart(self) -> Any:
        return None
