"""A chat in this process: no program is started for a turn, as our worlds need no sandbox."""

from __future__ import annotations

from typing import Any

import aiohttp
import verifiers.v1 as vf


class ChatSession(vf.HarnessSession):  # type: ignore[misc]
    """One episode's conversation; model calls pass verifiers' server, which records them."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._http = aiohttp.ClientSession(
            headers={"Authorization": f"Bearer {self.secret}"},
            timeout=aiohttp.ClientTimeout(total=None),
        )
        self._messages: list[dict[str, Any]] = []
        if self.data.system_prompt is not None:
            self._messages.append({"role": "system", "content": self.data.system_prompt})

    async def _run(self, messages: Any) -> Any:
        self._messages += [{"role": m.role, "content": m.content} for m in messages]
        request = {"model": self.ctx.model, "messages": self._messages}
        async with self._http.post(f"{self.endpoint}/chat/completions", json=request) as reply:
            if not reply.ok:
                return vf.ProgramResult(exit_code=1, stdout="", stderr=await reply.text())
            said = (await reply.json())["choices"][0]["message"]
        self._messages.append({key: value for key, value in said.items() if value is not None})
        return vf.ProgramResult(exit_code=0, stdout="", stderr="")

    async def close(self) -> None:
        """Close the connection."""
        await super().close()
        await self._http.close()


class ChatHarness(vf.Harness[vf.HarnessConfig]):  # type: ignore[misc]
    """Makes chats."""

    APPENDS_SYSTEM_PROMPT = True
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    async def session(self, *args: Any) -> ChatSession:
        """One episode's chat."""
        return ChatSession(self, *args)

    async def launch(self, *_: Any) -> Any:
        """Never called: every turn goes through the session."""
        raise NotImplementedError
