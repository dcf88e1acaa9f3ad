"""`practicum desktop`: local desktops that stay up in the background."""

from __future__ import annotations

import re
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from practicum.cli.output import JsonFlag, console, print_json
from practicum.core.errors import ConfigError, unknown_name

if TYPE_CHECKING:
    from practicum.desktops.hosting import State

desktop = typer.Typer(
    help="Real desktops on this machine: bring up, list, look at, reset, take down.",
    no_args_is_help=True,
)

DesktopId = Annotated[
    str | None, typer.Argument(help="As in `desktop list`; not needed if only one is up.")
]


@desktop.command("up")
def up(
    body: Annotated[
        Literal["xvfb", "namespace"],
        typer.Option(help="On the host, or with files, processes and a net of its own."),
    ] = "xvfb",
    screen: Annotated[str, typer.Option(help="Width x height in pixels.")] = "1920x1080",
    template: Annotated[
        Path | None,
        typer.Option(help="A folder to copy over the home.", exists=True, file_okay=False),
    ] = None,
    port: Annotated[int, typer.Option(help="0 takes a free one.", min=0, max=65535)] = 0,
    json: JsonFlag = False,
) -> None:
    """Bring up a desktop and serve it until it is taken down."""
    size = re.fullmatch(r"([1-9]\d{1,4})x([1-9]\d{1,4})", screen)
    if size is None:
        raise ConfigError(f"--screen {screen}: write width x height, as in 1920x1080")
    from practicum.desktops.hosting import Wanted, bring_up

    state = bring_up(
        Wanted(
            body=body,
            width=int(size[1]),
            height=int(size[2]),
            template=str(template.resolve()) if template else None,
            port=port,
        )
    )
    if json:
        print_json(asdict(state))
        return
    out = console()
    out.print(f"{state.id} at {state.url}, ready in {state.ready_s:.2f} s", markup=False)
    out.print(f"token {state.token}", markup=False)
    out.print(f"take it down with: practicum desktop down {state.id}", markup=False)


@desktop.command("list")
def list_desktops(json: JsonFlag = False) -> None:
    """List the desktops that are up; tokens are shown by `up` alone."""
    from practicum.desktops.hosting import list_up

    rows = [{k: v for k, v in asdict(state).items() if k != "token"} for state in list_up()]
    if json:
        print_json(rows)
        return
    out = console()
    for row in rows:
        width, height = row["screen"]
        out.print(
            f"{row['id']}  {row['body']:9}  {width}x{height}  {row['url']}  process {row['pid']}",
            markup=False,
        )
    if not rows:
        out.print("none is up; bring one up with: practicum desktop up")


@desktop.command("shot")
def shot(
    desktop_id: DesktopId = None,
    out: Annotated[Path | None, typer.Option(help="The file; ID.png by default.")] = None,
    json: JsonFlag = False,
) -> None:
    """Save what a desktop shows as a PNG file."""
    from practicum.desktops.hosting import ask

    state = _find(desktop_id)
    path = out or Path(f"{state.id}.png")
    data = ask(state, "shot")
    try:
        path.write_bytes(data)
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}") from error
    if json:
        print_json({"id": state.id, "path": str(path), "bytes": len(data)})
    else:
        console().print(str(path), markup=False)


@desktop.command("reset")
def reset(desktop_id: DesktopId = None, json: JsonFlag = False) -> None:
    """Give a desktop back its first state."""
    from practicum.desktops.hosting import ask

    state = _find(desktop_id)
    reset_s = float(ask(state, "reset"))
    if json:
        print_json({"id": state.id, "ready_s": reset_s})
    else:
        console().print(f"{state.id} is as new after {reset_s:.2f} s", markup=False)


@desktop.command("down")
def down(
    desktop_id: DesktopId = None,
    everything: Annotated[bool, typer.Option("--all", help="All that are up.")] = False,
    json: JsonFlag = False,
) -> None:
    """Take a desktop down and remove all it left."""
    from practicum.desktops.hosting import list_up, take_down

    if everything and desktop_id is not None:
        raise ConfigError("give an id or --all, not both")
    states = list_up() if everything else [_find(desktop_id)]
    for state in states:
        take_down(state)
    if json:
        print_json({"down": [state.id for state in states]})
    else:
        console().print(f"down: {', '.join(state.id for state in states) or 'none was up'}")


@desktop.command("doctor")
def doctor_desktop(json: JsonFlag = False) -> int:
    """Say what desktops need, what is missing, and the line to type."""
    from practicum.cli.doctor import doctor

    return doctor("desktop", json=json)


def _find(desktop_id: str | None) -> State:
    from practicum.desktops.hosting import list_up

    states = {state.id: state for state in list_up()}
    if desktop_id is None and len(states) == 1:
        return next(iter(states.values()))
    if desktop_id is None:
        count = "none" if not states else f"{len(states)}"
        raise ConfigError(f"which desktop? {count} up: {', '.join(states) or 'see desktop up'}")
    if desktop_id not in states:
        raise unknown_name("desktop", desktop_id, states)
    return states[desktop_id]
