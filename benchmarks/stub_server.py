"""An OpenAI-compatible chat endpoint that answers at once, always with the same text.

    python benchmarks/stub_server.py "Thought: ...\nAction: ..."

Listens on a free loopback port, prints the port and serves until its standard input closes.
`POST .../chat/completions` gets the answer; `GET /tally` gets the number of requests and of
body bytes since the last tally, so that callers can show that they sent the same load.
Standard library only, and just enough HTTP for well-behaved clients that keep connections
open: its cost is not part of any measurement, but it shares the machine with them.
"""

from __future__ import annotations

import asyncio
import json
import sys


def completion(answer: str) -> bytes:
    return json.dumps(
        {
            "id": "chatcmpl-stub",
            "object": "chat.completion",
            "created": 0,
            "model": "stub",
            "choices": [
                {
                    "index": 0,
                    "message": {"role": "assistant", "content": answer},
                    "finish_reason": "stop",
                }
            ],
            "usage": {"prompt_tokens": 1000, "completion_tokens": 20, "total_tokens": 1020},
        }
    ).encode()


def http_response(body: bytes) -> bytes:
    head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n"
    return head.encode() + b"\r\n" + body


class Tally:
    """Requests and body bytes since it was last read."""

    def __init__(self) -> None:
        self.num_requests = 0
        self.size_bytes = 0

    def take(self) -> bytes:
        taken = {"num_requests": self.num_requests, "size_bytes": self.size_bytes}
        self.num_requests = self.size_bytes = 0
        return json.dumps(taken).encode()


class StubProtocol(asyncio.Protocol):
    """One connection: waits for a whole request, answers, waits for the next."""

    def __init__(self, response: bytes, tally: Tally) -> None:
        self._response = response
        self._tally = tally
        self._received = bytearray()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        while (head_end := self._received.find(b"\r\n\r\n")) >= 0:
            head = bytes(self._received[:head_end]).lower()
            size_bytes = _content_length(head)
            request_end = head_end + 4 + size_bytes
            if len(self._received) < request_end:
                return
            del self._received[:request_end]
            assert self._transport is not None
            if head.startswith(b"get /tally"):
                self._transport.write(http_response(self._tally.take()))
            else:
                self._tally.num_requests += 1
                self._tally.size_bytes += size_bytes
                self._transport.write(self._response)


def _content_length(head: bytes) -> int:
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name == b"content-length":
            return int(value)
    return 0


async def serve(answer: str) -> None:
    loop = asyncio.get_running_loop()
    response = http_response(completion(answer))
    tally = Tally()
    server = await loop.create_server(lambda: StubProtocol(response, tally), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)
    server.close()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1].replace("\\n", "\n")))
