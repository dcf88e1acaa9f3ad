from __future__ import annotations

import asyncio
import itertools
import os
from pathlib import Path
from typing import Any

import pytest
from desktops.machines import SMALL, as_root, click, desktop, require_desktop, until, window_of

from practicum.core.errors import MachineError
from practicum.desktops.computer import Key, Move, Press, Text, Wait


@pytest.fixture(autouse=True)
def _programs() -> None:
    require_desktop("xterm")


async def terminal(machine: Any, *command: str) -> Any:
    await machine.computer.launch(["xterm", *command])
    window = await window_of(machine.computer, "XTerm")
    await machine.computer.perform(click(window.x + 40, window.y + 40))
    await machine.computer.settle()
    return window


async def test_a_text_of_any_characters_is_typed_as_it_is() -> None:
    line = "a<b>c|d\\e~^`'\" ÄßÇ € Привет 中文字 ẞ ∀ 🙂 {}[]"
    async with desktop() as machine:
        await terminal(machine, "-e", "cat > typed")
        await machine.computer.perform([Text(line + "\n"), Key("ctrl"), Key("d")])
        await machine.computer.perform([Key("d", False), Key("ctrl", False)])

        async def written() -> bool:
            result = await machine.computer.run("cat typed")
            return result.output == line + "\n"

        await until(written)


async def test_more_strange_characters_than_spare_keys_are_typed_in_order() -> None:
    text = "".join(chr(0x4E00 + n) for n in range(200))
    async with desktop() as machine:
        await terminal(machine, "-e", "cat > typed")
        await machine.computer.perform([Text(text + "\n")])

        async def written() -> bool:
            return bool((await machine.computer.run("cat typed")).output == text + "\n")

        await until(written)


async def test_the_screen_shows_windows_and_the_pointer() -> None:
    async with desktop() as machine:
        computer = machine.computer
        window = await terminal(machine)
        await computer.perform([Move(7, 9)])
        await computer.settle()
        assert await computer.pointer() == (7, 9)
        bare = await computer.frame(cursor=False)
        drawn = await computer.frame(cursor=True)
        assert bare.shape == (SMALL.height, SMALL.width, 4)
        rows, columns = (bare != drawn).any(axis=2).nonzero()
        assert 0 < rows.max() < 60 and 0 < columns.max() < 60
        inside = bare[window.y + 200, window.x + 200, :3]
        outside = bare[SMALL.height - 5, 5, :3]
        assert inside.tolist() == [255, 255, 255]
        assert outside.tolist() == [0x66, 0x55, 0x3B]
        png = await computer.screenshot()
        assert png.data.startswith(b"\x89PNG") and png.media_type == "image/png"
        assert (await computer.screenshot()).hash == png.hash
        assert (await computer.screenshot("jpeg")).data.startswith(b"\xff\xd8")


async def test_a_command_ends_although_its_child_holds_the_output() -> None:
    async with desktop() as machine:
        result = await machine.computer.run("sleep 4717 & echo here; echo there >&2; exit 3")
        assert (result.exit_code, result.output, result.error) == (3, "here\n", "there\n")
        still = await machine.computer.run(["pgrep", "-fx", "sleep 4717"])
        assert still.exit_code == 0


async def test_a_command_that_takes_too_long_is_killed_with_its_group() -> None:
    async with desktop() as machine:
        with pytest.raises(MachineError, match="did not end within") as caught:
            await machine.computer.run("sleep 4718; true", timeout_s=0.2)
        assert caught.value.kind == "timeout"

        async def gone() -> bool:
            found = await machine.computer.run(["pgrep", "-fx", "sleep 4718"])
            return bool(found.exit_code == 1)

        await until(gone)


async def test_commands_get_their_input_and_a_lot_of_output_is_kept() -> None:
    async with desktop() as machine:
        data = os.urandom(300_000).hex()
        result = await machine.computer.run(["cat"], stdin=data.encode())
        assert result.output == data
        long_argument = "x" * 100_000
        assert (await machine.computer.run(["echo", long_argument])).output == long_argument + "\n"


async def test_what_cannot_be_started_is_a_fault_with_a_name() -> None:
    async with desktop() as machine:
        for attempt in (
            machine.computer.run(["no-such-program"]),
            machine.computer.launch(["no-such-program"]),
            machine.computer.launch("no-such-program --flag"),
            machine.computer.run(["true"], cwd="/no/such/folder"),
        ):
            with pytest.raises(MachineError) as caught:
                await attempt
            assert caught.value.kind == "spawn"


async def test_files_are_read_and_written_as_the_desktops_user() -> None:
    async with desktop() as machine:
        computer = machine.computer
        data = bytes(range(256)) * 1000
        await computer.write_file("~/new/deep/file.bin", data)
        assert await computer.read_file("~/new/deep/file.bin") == data
        owner = await computer.run(["stat", "-c", "%U", str(computer.home / "new/deep/file.bin")])
        me = await computer.run(["id", "-un"])
        assert owner.output == me.output
        with pytest.raises(FileNotFoundError):
            await computer.read_file("~/none")
        with pytest.raises(IsADirectoryError):
            await computer.read_file("~/new")


@as_root
async def test_the_desktops_user_is_not_root() -> None:
    async with desktop() as machine:
        assert (await machine.computer.run(["id", "-un"])).output == "user\n"
        with pytest.raises(PermissionError):
            await machine.computer.read_file("/etc/shadow")
        await machine.computer.run(["ln", "-s", "/etc/shadow", "link"])
        with pytest.raises(PermissionError):
            await machine.computer.read_file("~/link")
        with pytest.raises(PermissionError):
            await machine.computer.write_file("/etc/passwd", b"")


async def test_our_environment_does_not_reach_the_desktop(monkeypatch: Any) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "a-secret")
    async with desktop() as machine:
        assert "a-secret" not in (await machine.computer.run(["env"])).output


async def test_wrong_inputs_are_refused_before_anything_is_done() -> None:
    async with desktop() as machine:
        computer = machine.computer
        await computer.perform([Move(10, 10)])
        for wrong in (
            Move(SMALL.width, 0),
            Move(0, -1),
            Key("no-such-key"),
            Text("\x07"),
            Wait(-1),
        ):
            with pytest.raises(ValueError):
                await computer.perform([Move(20, 20), wrong])
        assert await computer.pointer() == (10, 10)
        with pytest.raises(ValueError, match="no window"):
            await computer.activate_window("0x1")


async def test_windows_are_raised_and_closed() -> None:
    async with desktop() as machine:
        computer = machine.computer
        await computer.launch(["xterm", "-title", "one"])
        await until(lambda: _titles(computer, {"one"}))
        await computer.launch(["xterm", "-title", "two", "-geometry", "+500+300"])
        await until(lambda: _titles(computer, {"one", "two"}))
        [one] = [w for w in await computer.windows() if w.title == "one"]
        assert one.class_name == "xterm.XTerm"
        await computer.activate_window(one.id)

        async def is_on_top() -> bool:
            top = (await computer.windows())[-1]
            return bool(top.title == "one" and top.is_active)

        await until(is_on_top)
        await computer.close_window(one.id)
        await until(lambda: _titles(computer, {"two"}))


async def _titles(computer: Any, titles: set[str]) -> bool:
    return {window.title for window in await computer.windows()} == titles


async def test_the_clipboard_holds_a_text() -> None:
    async with desktop() as machine:
        assert await machine.computer.clipboard() == ""
        await machine.computer.set_clipboard("žluťoučký\nkůň " * 5000)
        assert await machine.computer.clipboard() == "žluťoučký\nkůň " * 5000


async def test_the_clipboard_holds_the_new_text_at_once() -> None:
    async with desktop() as machine:
        for number in range(40):
            await machine.computer.set_clipboard(str(number))
            assert await machine.computer.clipboard() == str(number)


async def test_a_screen_that_changes_all_the_time_does_not_settle() -> None:
    async with desktop() as machine:
        computer = machine.computer
        assert await computer.settle(timeout_s=5)

        async def paint() -> None:
            for colour in itertools.count():
                await computer._thread.call(computer._x.paint_root, colour)
                await asyncio.sleep(0.01)

        painting = asyncio.create_task(paint())
        try:
            assert not await computer.settle(timeout_s=1)
        finally:
            painting.cancel()
        assert await computer.settle(timeout_s=5)


async def test_a_reset_leaves_no_process_and_no_file() -> None:
    async with desktop() as machine:
        first = machine.computer
        await first.write_file("~/mine", b"x")
        await first.write_file("~/.bashrc", b"changed")
        await first.run("touch /tmp/left-by-desktop-test /dev/shm/left-by-desktop-test")
        await first.launch("setsid nohup sleep 4711 >/dev/null 2>&1 &")
        await machine.reset()
        computer = machine.computer
        assert computer is not first
        assert (await computer.run(["pgrep", "-f", "sleep 4711"])).exit_code == 1
        with pytest.raises(FileNotFoundError):
            await computer.read_file("~/mine")
        assert await computer.read_file("~/.bashrc") != b"changed"
        if os.geteuid() == 0:
            assert not Path("/tmp/left-by-desktop-test").exists()
            assert not Path("/dev/shm/left-by-desktop-test").exists()
        with pytest.raises(MachineError):
            await first.pointer()
        await machine.check()


async def test_a_template_is_laid_over_the_home(tmp_path: Path) -> None:
    (tmp_path / "Documents").mkdir()
    (tmp_path / "Documents" / "plan.txt").write_text("first")
    async with desktop(template=tmp_path) as machine:
        assert await machine.computer.read_file("~/Documents/plan.txt") == b"first"
        assert b"PS1" in await machine.computer.read_file("~/.bashrc")


async def test_a_dead_x_server_is_a_named_fault_and_the_machine_comes_back() -> None:
    async with desktop() as machine:
        await machine.check()
        await machine.computer.run(["pkill", "-KILL", "-x", "Xvfb"])
        for attempt in (machine.computer.screenshot, machine.computer.pointer, machine.check):

            async def fails(attempt: Any = attempt) -> MachineError | None:
                try:
                    await attempt()
                except MachineError as error:
                    return error
                return None

            assert (await until(fails)).kind == "display"
        await machine.reset()
        await machine.check()
        await machine.computer.perform([Press("right"), Press("right", False)])


async def test_a_reset_that_is_cancelled_half_way_leaves_nothing() -> None:
    require_desktop()
    async with desktop() as machine:
        keeper = machine.keeper_pid
        reset = asyncio.create_task(machine.reset())
        await asyncio.sleep(0)  # it has begun to take the desktop down
        reset.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reset
        await machine.stop()
        assert not Path(f"/proc/{keeper}").exists()


async def test_stopping_twice_is_fine_and_leaves_nothing() -> None:
    async with desktop() as machine:
        home = Path(machine.computer.home)
        pid = machine.keeper_pid
        assert home.exists()
        await machine.stop()
        await machine.stop()
        assert not home.parent.exists()
        assert not Path(f"/proc/{pid}").exists()
        with pytest.raises(MachineError, match="not up"):
            _ = machine.computer
