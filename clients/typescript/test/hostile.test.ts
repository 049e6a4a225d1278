import assert from "node:assert/strict";
import { gzipSync } from "node:zlib";
import { describe, it } from "node:test";
import { inspect } from "node:util";
import { FluxGate, FluxGateError } from "@fluxgate/client";
import { limit } from "@fluxgate/client/express";
import { eventually, script, serve } from "./servers.js";

const secret = "hush-hush";
const good = '{"allowed":true,"reason":"ok","remaining":1}';

const newClient = (url: string, timeoutMs = 20_000) => new FluxGate({ url, token: secret, onFailure: "throw", timeoutMs });
const http = (body: string, type = "application/json", status = "200 OK") =>
  `HTTP/1.1 ${status}\r\nContent-Type: ${type}\r\nContent-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`;

/** One check, alone or in a batch of two, must fail with this code. */
async function fails(url: string, code: string, { batch = false, timeoutMs = 20_000 } = {}): Promise<FluxGateError> {
  const client = newClient(url, timeoutMs);
  const checks = await Promise.allSettled(batch ? [client.check({}), client.check({})] : [client.check({})]);
  for (const check of checks) {
    assert.ok(check.status === "rejected" && check.reason instanceof FluxGateError, inspect(check));
    assert.equal(check.reason.code, code, check.reason.message);
    assert.ok(!inspect(check.reason).includes(secret) && !inspect(check.reason).includes(new URL(url).port) && check.reason.message.length < 500);
  }
  return (checks[0] as PromiseRejectedResult).reason as FluxGateError;
}

describe("hostile answers", () => {
  for (const body of [
    "", "null", "[]", "7", '"allowed"', "{", "{}", '{"allowed":1,"reason":"ok","remaining":1}', '{"allowed":true,"reason":["ok"],"remaining":1}', '{"allowed":true,"reason":"ok"}',
    '{"allowed":true,"reason":"ok","remaining":-1}', '{"allowed":true,"reason":"ok","remaining":1e999}', '{"allowed":true,"reason":"ok","remaining":"1"}',
    '{"allowed":true,"reason":"ok","remaining":1,"bands":{}}', '{"allowed":true,"reason":"ok","remaining":1,"bands":[null]}', '{"allowed":true,"reason":"ok","remaining":1,"receipt":{}}',
    '{"allowed":true,"reason":"ok","remaining":1,"rule":"a\\r\\nX-Evil: 1"}', '{"__proto__":{"allowed":true,"reason":"ok","remaining":1}}',
  ]) {
    it(`is not an answer: ${body}`, async () => {
      await fails(await serve((_, res) => res.end(body)), "answer");
      await fails(await serve((_, res) => res.end(`{"index":0,"decision":${body}}\n{"index":1,"decision":${body}}\n`)), "answer", { batch: true });
    });
  }

  for (const lines of ["", "\n\n\n", '{"index":2,"decision":' + good + "}\n", '{"index":-1,"decision":' + good + "}\n", '{"index":"0","decision":' + good + "}\n", '{"index":0.5,"decision":' + good + "}\n"]) {
    it(`is not an answer to a batch: ${JSON.stringify(lines)}`, async () => {
      await fails(await serve((_, res) => res.end(lines)), "answer", { batch: true });
    });
  }

  it("that answers one check twice answers no other", async () => {
    const line = `{"index":0,"decision":${good}}\n`;
    const client = newClient(await serve((_, res) => res.end(line + line)));
    const [first, second] = await Promise.allSettled([client.check({}), client.check({})]);
    assert.deepEqual([first.status, second.status], ["fulfilled", "rejected"]);
  });

  it("does not pollute prototypes or return unknown fields", async () => {
    const evil = '"__proto__":{"polluted":1},"constructor":{"prototype":{"polluted":1}},"toString":1,"more":2';
    const band = `{"rule":"r","status":"ok","source":"store","limit":1,"remaining":1,"capacity":1,${evil}}`;
    const body = `{"allowed":true,"reason":"ok","remaining":1,"bands":[${band}],${evil}}`;
    const decision = await newClient(await serve((_, res) => res.end(body))).check({});
    assert.deepEqual(decision, { allowed: true, reason: "ok", remaining: 1, bands: [{ rule: "r", status: "ok", source: "store", limit: 1, remaining: 1, capacity: 1 }] });
    assert.equal(({} as Record<string, unknown>)["polluted"], undefined);
    assert.equal(Object.getPrototypeOf(decision), Object.prototype);
    const settled = await newClient(await serve((_, res) => res.end('{"measures":{"__proto__":{"returned":1,"charged":0}}}'))).settle("r", { usage: {} });
    assert.equal(Object.getPrototypeOf(settled.measures), Object.prototype);
    assert.deepEqual(Object.keys(settled.measures), ["__proto__"]);
  });

  it("of endless length ends", async () => {
    const endless = (start: string, piece: string) =>
      serve((_, res) => {
        res.write(start);
        const more = () => { while (res.writable && res.write(piece)) { /* until the buffer is full */ } };
        res.on("drain", more);
        more();
      });
    const error = await fails(await endless('{"reason":"', "x".repeat(10_000)), "answer");
    assert.match(error.message, /longer than/);
    await fails(await endless('{"index":"', "x".repeat(10_000)), "answer", { batch: true });
    await fails(await serve((_, res) => { res.setHeader("Content-Encoding", "gzip"); res.end(gzipSync(" ".repeat(50 << 20))); }), "answer");
    const problem = await fails(await serve((_, res) => { res.writeHead(503, { "Content-Type": "application/problem+json" }); res.end('{"detail":"' + "x".repeat(5_000) + '"}'); }), "refused");
    assert.equal(problem.message, "the server answers 503");
  });

  it("that drips ends with the deadline", async () => {
    const drip = await serve((_, res) => {
      res.write("{");
      const timer = setInterval(() => res.write(" "), 10);
      res.on("close", () => { clearInterval(timer); });
    });
    for (const batch of [false, true]) {
      const started = performance.now();
      await fails(drip, "timeout", { batch, timeoutMs: 200 });
      const took = performance.now() - started;
      assert.ok(took >= 190 && took < 5_000, `${took} ms`);
    }
  });

  it("that never ends is closed when all callers have left or have answers", async () => {
    let closed = false;
    const frozen = await serve((_, res) => {
      res.on("close", () => { closed = true; });
      setTimeout(() => res.write(`{"index":1,"decision":${good}}\n`), 300);
    });
    const client = newClient(frozen);
    const [first, second] = await Promise.allSettled([client.check({}, { timeoutMs: 100 }), client.check({})]);
    assert.deepEqual([first.status, second.status], ["rejected", "fulfilled"]);
    await eventually("the connection is closed", () => closed);
  });

  it("that redirects is not followed", async () => {
    let followed = 0;
    const target = await serve((_, res) => { followed++; res.end(good); });
    for (const status of [301, 302, 303, 307, 308]) {
      const error = await fails(await serve((_, res) => res.writeHead(status, { Location: `${target}/${secret}` }).end()), "refused");
      assert.equal(error.serverStatus, status);
    }
    assert.equal(followed, 0);
  });

  it("that breaks off is a failure", async () => {
    await fails(await script("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{"), "network");
    await fails(await script("nonsense"), "network");
    await fails(await script("", (socket) => { socket.resetAndDestroy(); }), "network");
  });

  it("cannot put the token, control characters or much text into errors", async () => {
    const detail = JSON.stringify({ detail: `${secret}\u001b[31m\r\n\u202e${"x".repeat(2_000)}` });
    const error = await fails(await script(http(detail, "application/problem+json", "401 Unauthorized")), "refused");
    assert.match(error.message, /^the server answers 401: …[ -~]*x{300}/);
    const line = `{"index":0,"decision":{"error":"\\u0000\\u0068ush-hush","status":403}}\n{"index":1,"decision":{"error":"a\\nb","status":403}}\n`;
    await fails(await serve((_, res) => res.end(line)), "refused", { batch: true });
  });

  it("cannot set headers of the middleware's response", async () => {
    const band = '{"rule":"r","label":"a\\";evil","status":"ok","source":"store","limit":1,"remaining":1,"capacity":1}';
    const middleware = limit(newClient(await serve((_, res) => res.end(`{"allowed":false,"reason":"limited","rule":"r","band":"b","remaining":0,"bands":[${band}]}`))));
    const url = await serve((req, res) => { void middleware(req, res, (error) => { res.statusCode = error ? 500 : 200; res.end(); }); });
    assert.equal((await fetch(url)).status, 500);
    for (const body of [`{"allowed":false,"reason":"constructor","remaining":0}`, `{"allowed":false,"reason":"__proto__","remaining":0}`]) {
      const odd = limit(newClient(await serve((_, res) => res.end(body))));
      assert.equal((await fetch(await serve((req, res) => { void odd(req, res, () => res.end()); }))).status, 429);
    }
  });
});

it("an async onError that throws does not end the process", async () => {
  const unhandled: unknown[] = [];
  const note = (reason: unknown) => { unhandled.push(reason); };
  process.on("unhandledRejection", note);
  try {
    const client = new FluxGate({ url: await serve((_, res) => res.end("{}")), onFailure: "allow", onError: () => Promise.reject(new Error("no log")) });
    assert.equal((await client.check({})).degraded, true);
    await new Promise((done) => setImmediate(done)); // unhandled rejections are reported after the microtasks
    assert.deepEqual(unhandled, []);
  } finally {
    process.off("unhandledRejection", note);
  }
});

describe("hostile callers", () => {
  it("cannot break out of the request", async () => {
    const bodies: unknown[] = [];
    const url = await serve((req, res) => {
      let body = "";
      req.on("data", (chunk) => (body += String(chunk)));
      req.on("end", () => { bodies.push(JSON.parse(body)); res.end(good); });
    });
    const request = { userId: 'a","cost":0,"x":"\r\n\u2028', headers: { "X-A\r\nB": ["1\r\n2"] }, attributes: JSON.parse('{"__proto__":"x"}') as Record<string, string> };
    await newClient(url).check(request);
    const { timeoutMs, ...sent } = bodies[0] as Record<string, unknown>;
    assert.deepEqual(sent, request);
    assert.ok(typeof timeoutMs === "number");
  });

  it("cannot send what JSON cannot carry, and errors do not show it", async () => {
    const client = newClient(await serve(() => assert.fail("a request was sent")));
    const cyclic: Record<string, unknown> = {};
    cyclic["attributes"] = cyclic;
    const odd: unknown[] = [
      { userId: `${secret}\ud800` }, { apiKey: `\udfff${secret}` }, { userId: 7 }, { userId: null }, { cost: -1 }, { cost: NaN }, { cost: 2 ** 53 }, { cost: "1" }, { cost: 1n }, { [secret]: 1 },
      { descriptor: [{ key: "a", other: secret }] }, { descriptor: { key: secret } }, { headers: { a: [undefined] } }, { estimate: { inputTokens: 1.5 } }, { timeoutMs: 1 }, { bytes: true },
      { userId: { toJSON: () => 7 } }, { path: "x".repeat(300_000) }, cyclic, [], undefined, "x", () => secret,
    ];
    for (const request of odd) {
      await assert.rejects(client.check(request as object), (error) => error instanceof FluxGateError && error.code === "invalid" && !inspect(error).includes(secret), inspect(request).slice(0, 100));
    }
    for (const actual of [{ actual: -1 }, { actual: 1.5 }, { usage: { more: 1 } }, {}, { actual: 1, usage: {} }]) {
      await assert.rejects(client.settle("r", actual as { actual: number }), (error) => error instanceof FluxGateError && error.code === "invalid");
    }
  });
});
