"""Reserves tokens and money for a call of a language model, and settles with what the model has used.

Start a server with the rules beside this file, and run it:

    fluxgate serve --set rules.file=rules.yaml --set redis.enabled=false
    python model.py

The model is a stand-in on this machine that answers like one: with a text and the tokens of its usage.
"""

from __future__ import annotations

import asyncio
import json
import os
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import httpx

from fluxgate import Estimate, Rejected, Request, Usage
from fluxgate.aio import AsyncFluxGate


class Model(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        words = len(asked["prompt"].split())
        answer = json.dumps({"text": f"an answer to {words} words", "usage": {"input": words, "output": 100 * words}}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: object) -> None:
        pass


async def chat(limiter: AsyncFluxGate, models: httpx.AsyncClient, url: str, user: str, prompt: str) -> str:
    # The most that the call may use: the prompt, and as many tokens as the model may answer.
    estimate = Estimate(model="small", input_tokens=len(prompt), max_output_tokens=4000)
    async with limiter.reservation(Request(user_id=user, path="/chat", estimate=estimate)) as reservation:
        answer = (await models.post(url, json={"prompt": prompt})).json()
        used = answer["usage"]
        reservation.report(Usage(input_tokens=used["input"], output_tokens=used["output"]))
    for measure, settled in sorted((reservation.settlement or {}).items()):
        print(f"  {measure}: {settled.returned} given back, {settled.charged} charged")
    return str(answer["text"])


async def main() -> None:
    limiter = AsyncFluxGate(os.environ.get("FLUXGATE_URL", "http://127.0.0.1:8080"), token=os.environ.get("FLUXGATE_TOKEN", ""), on_failure="raise", timeout=5)
    server = HTTPServer(("127.0.0.1", 0), Model)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    async with httpx.AsyncClient(trust_env=False) as models:
        for prompt in ("one two three", "word " * 25, "word " * 45, "one two"):
            try:
                print(await chat(limiter, models, f"http://127.0.0.1:{server.server_port}", "ada", prompt))
            except Rejected as rejected:
                print(f"rejected by {rejected.decision.rule}.{rejected.decision.band}: {rejected.decision.remaining} left")
    await limiter.close()


asyncio.run(main())
