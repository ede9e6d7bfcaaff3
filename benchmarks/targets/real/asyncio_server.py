"""An HTTP server on asyncio's streams, whose answers are made by a few tasks each: asyncio_server.py

The first line on stdout is {"port": where it listens}. Ends when it is killed.
"""

from __future__ import annotations

import asyncio
import json


async def part(number: int) -> dict[str, object]:
    await asyncio.sleep(0)
    return {"number": number, "square": number * number, "text": "x" * (number % 50)}


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while await reader.readline():
        while (await reader.readline()).strip():
            pass
        body = json.dumps(await asyncio.gather(*(part(number) for number in range(40)))).encode()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
        await writer.drain()
    writer.close()


async def main() -> None:
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    print(json.dumps({"port": server.sockets[0].getsockname()[1]}), flush=True)
    await server.serve_forever()


asyncio.run(main())
