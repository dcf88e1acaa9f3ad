"""`practicum`: collects the commands and turns errors into exit codes.

Nothing heavy is imported before a command has been parsed, so that `--help` answers at
once: commands import what they run inside their functions.
"""

from __future__ import annotations

import sys

import typer

from practicum.cli.check import check
from practicum.cli.compare import compare
from practicum.cli.data import data
from practicum.cli.desktop import desktop
from practicum.cli.doctor import doctor
from practicum.cli.envs import envs
from practicum.cli.evaluate import evaluate
from practicum.cli.export import export
from practicum.cli.gateway import gateway
from practicum.cli.proxy import proxy
from practicum.cli.serve import serve
from practicum.cli.tasks import tasks
from practicum.cli.train import rl, sft
from practicum.core.errors import ConfigError, PracticumError, StoreError

FAILED = 1
BAD_INPUT = 2
FULL_GPU = (
    "the GPU's memory is full: in sft and rl lower sampler.slots (its cache), packing.pack_tokens "
    "or model.max_context, or set model.gradient_checkpointing=true; in eval lower concurrency "
    "or hf.max_context"
)

app = typer.Typer(
    name="practicum",
    help="Train and judge language-model agents where they act, and trust the numbers.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("envs")(envs)
app.command("tasks")(tasks)
app.command("check")(check)
app.command("eval")(evaluate)
app.command("compare")(compare)
app.command("serve")(serve)
app.command("gateway")(gateway)
app.command("proxy")(proxy)
app.add_typer(data, name="data")
app.command("sft")(sft)
app.command("rl")(rl)
app.command("export")(export)
app.add_typer(desktop, name="desktop")
app.command("doctor")(doctor)


def main(argv: list[str] | None = None) -> int:
    """Run a command; return the exit code: 0 done, 1 failed, 2 bad input."""
    try:
        result = app(args=argv, standalone_mode=False)
    except (ConfigError, StoreError) as error:
        _complain(str(error))
        return BAD_INPUT
    except PracticumError as error:
        _complain(str(error))
        return FAILED
    except KeyboardInterrupt:
        _complain("interrupted")
        return FAILED
    except Exception as error:
        # Typer brings its own copy of click or uses the installed one: known by its methods.
        if hasattr(error, "format_message") and hasattr(error, "exit_code"):
            _complain(error.format_message())
            return BAD_INPUT
        if _is_full_gpu(error):
            _complain(f"{FULL_GPU} ({str(error).partition(' If reserved')[0]})")
            return FAILED
        raise
    if not isinstance(result, int):
        return 0
    return result if result in (0, FAILED, BAD_INPUT) else FAILED  # typer says 130 for Ctrl-C


def run() -> None:
    """Entry point of the installed command."""
    sys.exit(main())


def _is_full_gpu(error: Exception) -> bool:
    torch = sys.modules.get("torch")  # who has not loaded it has no GPU to fill
    return torch is not None and isinstance(error, torch.OutOfMemoryError)


def _complain(message: str) -> None:
    sys.stderr.write(f"practicum: {' '.join(message.split())}\n")
