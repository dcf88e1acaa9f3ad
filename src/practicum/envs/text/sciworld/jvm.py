"""One Java process, and the one thread that talks to it. Knows nothing of ScienceWorld.

The process is tied to ours by a pipe: Java reads its standard input and exits at its end,
so it dies with us however we die. It answers on a loopback port, to callers that know its
token. Importing this module needs `py4j`.
"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from py4j.java_gateway import GatewayClient, GatewayParameters, JavaGateway, find_jar_path
from py4j.protocol import Py4JError, Py4JNetworkError

from practicum.core.errors import ConfigError, MachineError

INSTALL_JAVA = "apt-get install default-jre-headless"
CALL_TIMEOUT_S = 120.0
"""For one call into Java; a call takes milliseconds."""
STOP_TIMEOUT_S = 10.0
KILL_AFTER_S = 0.5
"""What a process that stopped answering gets to end by itself."""
START_TIMEOUT_S = 120.0
"""Until a new process names its port; a second on a free machine."""
MIN_JAVA = 11

T = TypeVar("T")


class _OneTryClient(GatewayClient):  # type: ignore[misc]
    """A client that never sends a command twice: the original resends after a lost answer."""

    def send_command(self, command: str, retry: bool = True, binary: bool = False) -> Any:
        connection = self._get_connection()
        try:
            response = connection.send_command(command)
        except BaseException:
            connection.close(reset=True)
            raise
        self._give_back_connection(connection)
        return response


class _Gateway(JavaGateway):  # type: ignore[misc]
    def _create_gateway_client(self) -> Any:
        return _OneTryClient(gateway_parameters=self.gateway_parameters)


class Jvm:
    """A Java process with all its calls in order, because one thread makes them."""

    def __init__(self, jar: Path, *, options: tuple[str, ...] = ()) -> None:
        self._jar = jar
        self._options = options
        # Starting is the thread's first work: whoever comes first pays, nobody waits twice.
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="practicum-jvm")
        self._process: subprocess.Popen[bytes] | None = None
        self._gateway: Any = None
        self._end = ""
        """Why there is no process any more; empty while it may be used."""
        self._is_stopped = False

    @property
    def is_usable(self) -> bool:
        """Whether a call can still succeed; true before the start."""
        if not self._end and self._process is not None and self._process.poll() is not None:
            self._end = f"it exited with status {self._process.returncode}"
        return not self._end

    @property
    def pid(self) -> int | None:
        """Process id, once started."""
        return self._process.pid if self._process else None

    async def run(self, work: Callable[[Any], T]) -> T:
        """Run `work(gateway)` on the process's thread.

        A cancelled caller leaves at once; the work itself ends by itself, in its turn.
        """
        self._expect_usable()
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._guard, work)

    def post(self, work: Callable[[Any], None]) -> None:
        """Queue work nobody waits for: letting go of Java objects, if there is a process."""

        def if_started() -> None:
            if self._gateway is not None:
                self._guard(work)

        if self.is_usable:
            self._thread.submit(if_started)

    async def stop(self) -> None:
        """End the process and the thread; idempotent."""
        if self._is_stopped:
            return
        self._is_stopped = True
        self._end = self._end or "it was stopped"
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()  # wakes a thread that waits for an answer
        # On its own thread, behind all other work: a process being started is ended, too.
        ended = self._thread.submit(self._end_process)
        self._thread.shutdown(wait=False)
        await asyncio.shield(asyncio.wrap_future(ended))

    def _expect_usable(self) -> None:
        if not self.is_usable:
            raise MachineError(
                f"the Java process of this episode is gone: {self._end}; "
                "play the episode again, another process takes its place",
                kind="jvm-died",
            )

    def _guard(self, work: Callable[[Any], T]) -> T:
        self._expect_usable()
        if self._gateway is None:
            self._start()
        try:
            return work(self._gateway)
        except (Py4JError, OSError) as error:
            if isinstance(error, Py4JNetworkError | OSError):
                # An answer is lost: what Java did is unknown, so nothing may go on with it.
                cause = error.__cause__ or getattr(error, "cause", None) or error
                is_late = isinstance(cause, TimeoutError)
                self._end = f"no answer in {CALL_TIMEOUT_S:.0f} s" if is_late else str(cause)
                self._end_process()
            if self.is_usable:
                raise
            raise MachineError(
                f"the Java process of this episode died: {self._end}; "
                "play the episode again, another process takes its place",
                kind="jvm-died",
            ) from error

    def _start(self) -> None:
        try:
            self._process, port, token = _launch(self._jar, self._options)
            self._gateway = _Gateway(
                gateway_parameters=GatewayParameters(
                    port=port,
                    auth_token=token,
                    read_timeout=CALL_TIMEOUT_S,
                    # Else objects are freed from whichever thread collects garbage.
                    enable_memory_management=False,
                )
            )
            _check_version(self._gateway)
            _silence(self._gateway)
        except (Py4JError, OSError, ConfigError) as error:
            self._end = f"it did not start: {error}"
            self._end_process()
            if isinstance(error, ConfigError):
                raise
            raise MachineError(f"Java did not start: {error}", kind="jvm-start") from error

    def _end_process(self) -> None:
        process = self._process
        if process is None:
            return
        if self._gateway is not None:
            self._gateway.close()
        assert process.stdin is not None and process.stdout is not None
        process.stdin.close()
        try:
            process.wait(STOP_TIMEOUT_S if self._is_stopped else KILL_AFTER_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


def _launch(jar: Path, options: tuple[str, ...]) -> tuple[subprocess.Popen[bytes], int, str]:
    java = shutil.which("java")
    if java is None:
        raise ConfigError(f"there is no `java` on this machine: {INSTALL_JAVA}")
    classpath = f"{Path(find_jar_path()).absolute()}:{jar}"
    server = ("py4j.GatewayServer", "--die-on-broken-pipe", "--enable-auth", "0")
    process = subprocess.Popen(
        [java, *options, "-classpath", classpath, *server],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=jar.parent,  # ScienceWorld reads a table that lies beside its jar
        start_new_session=True,  # Ctrl-C is for us; Java follows through the pipe
    )
    watchdog = threading.Timer(START_TIMEOUT_S, process.kill)
    watchdog.start()
    try:
        assert process.stdout is not None
        said: list[str] = []
        for line in process.stdout:
            said.append(line.decode(errors="replace").strip())
            # Java may print warnings first; then come the port and the token.
            if len(said) > 1 and said[-2].isdigit():
                return process, int(said[-2]), said[-1]
        raise ConfigError(
            f"{java} does not run with {' '.join(options)} (it said: {' '.join(said)}): "
            f"a HotSpot Java {MIN_JAVA} or newer is needed: {INSTALL_JAVA}"
        )
    except BaseException:
        process.kill()
        process.communicate()
        raise
    finally:
        watchdog.cancel()


def _check_version(gateway: Any) -> None:
    version = gateway.jvm.java.lang.System.getProperty("java.specification.version")
    if version.startswith("1.") or int(version) < MIN_JAVA:
        raise ConfigError(f"Java {version} is too old, {MIN_JAVA} is needed: {INSTALL_JAVA}")


def _silence(gateway: Any) -> None:
    """Drop what Java prints: nobody reads the pipe, and a full one would stop it."""
    java = gateway.jvm.java
    java.lang.System.setOut(java.io.PrintStream(java.io.OutputStream.nullOutputStream()))
