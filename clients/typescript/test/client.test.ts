import assert from "node:assert/strict";
import { inspect } from "node:util";
import { before, describe, it } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { FluxGate, FluxGateError, type Decision, type FluxGateOptions, type OnFailure } from "@fluxgate/client";
import { counting, end, eventually, freePort, serve, startGate, startRedis, token, type Gate } from "./servers.js";

let redis: string;
let gate: Gate;

before(async () => {
  redis = await startRedis();
  gate = await startGate(redis);
});

/** A client that reports failures, with time for a busy machine. */
function newClient(options: Partial<FluxGateOptions> = {}): { client: FluxGate; errors: FluxGateError[] } {
  const errors: FluxGateError[] = [];
  const client = new FluxGate({ url: gate.url, token, onFailure: "throw", timeoutMs: 20_000, onError: (error) => errors.push(error), ...options });
  return { client, errors };
}

const isCode = (code: string) => (error: unknown) => error instanceof FluxGateError && error.code === code;

describe("options", () => {
  it("must be valid, and errors do not show them", () => {
    for (const options of [
      { onFailure: undefined as unknown as OnFailure },
      { url: "nonsense://secret-host" },
      { url: "secret-host" },
      { url: "http://user:secret-host@h" },
      { url: "http://secret-host/?a=b" },
      { token: "secret-host\r\nX-Evil: 1" },
      { token: "비밀secret-host" },
      { timeoutMs: 0 },
      { timeoutMs: NaN },
      { maxBatch: 0 },
    ]) {
      assert.throws(() => newClient(options), (error: Error) => error instanceof TypeError && !error.message.includes("secret-host"));
    }
  });

  it("are not printed with a client", () => {
    const { client } = newClient({ url: "http://secret-host", token: "secret-token" });
    assert.doesNotMatch(inspect(client, { depth: 10, showHidden: true }) + JSON.stringify(client), /secret/);
  });
});

/** A server that answers so many requests with 503, then like another one. It counts those. */
async function busyFor(first: number, behind: string, headers: Record<string, string> = { "Content-Type": "application/problem+json", "Retry-After": "1" }) {
  const seen = { refused: 0 };
  const url = await serve((req, res) => {
    void (async () => {
      let body = "";
      for await (const chunk of req) body += String(chunk);
      if (seen.refused < first) {
        seen.refused++;
        res.writeHead(503, headers).end('{"detail":"The server has too many connections."}');
        return;
      }
      const answer = await fetch(behind + req.url!, { method: "POST", body, headers: { authorization: req.headers.authorization!, "content-type": "application/json", accept: req.headers.accept! } });
      res.writeHead(answer.status, { "content-type": answer.headers.get("content-type")! }).end(await answer.text());
    })().catch(() => { res.destroy(); });
  });
  return { url, seen };
}

describe("a busy server", () => {
  it("is asked again, for checks, batches and settlements", async () => {
    const request = { userId: "busy", path: "/settled", cost: 10 };
    for (const checks of [1, 8]) {
      const busy = await busyFor(2, gate.url);
      const { client, errors } = newClient({ url: busy.url, onFailure: "allow" });
      const decisions = await Promise.all(Array.from({ length: checks }, () => client.check({ ...request, userId: `busy-${checks}` })));
      assert.deepEqual(decisions.map((d) => [d.allowed, d.reason]), decisions.map(() => [true, "ok"]));
      assert.deepEqual([busy.seen.refused, errors], [2, []]);
      assert.equal((await newClient().client.peek({ ...request, userId: `busy-${checks}` })).remaining, 100 - 10 * checks, "each was taken once");
      busy.seen.refused = 0;
      assert.equal((await client.settle(decisions[0]!.receipt!, { actual: 4 })).returned, 6);
    }
  });

  it("fails when the time is over", async () => {
    const problem = "application/problem+json";
    for (const [headers, code, again] of [
      [{ "Content-Type": problem, "Retry-After": "1" }, "busy", true],
      [{ "Content-Type": problem }, "refused", false],
      [{ "Content-Type": "text/html", "Retry-After": "1" }, "refused", false],
    ] as const) {
      const busy = await busyFor(Infinity, gate.url, headers);
      const { client, errors } = newClient({ url: busy.url, onFailure: "deny", timeoutMs: 2_000 });
      const decision = await client.check({ userId: "busy" });
      assert.deepEqual([decision.allowed, decision.degraded, errors.map((e) => e.code)], [false, true, [code]]);
      assert.ok(busy.seen.refused > 1 === again && busy.seen.refused < 10, `asked ${busy.seen.refused} times`);
      await assert.rejects(client.settle("r", { actual: 1 }, { signal: AbortSignal.timeout(again ? 50 : 20_000) }), again ? { name: "TimeoutError" } : isCode(code));
    }
  });
});

describe("sharing", () => {
  it("sends checks of the same time in few requests", async () => {
    const proxy = await counting(gate.url);
    const { client } = newClient({ url: proxy.url });
    const decisions = await Promise.all(Array.from({ length: 200 }, (_, i) => client.check({ userId: `share-${i % 20}`, path: "/api/a" })));
    assert.equal(decisions.filter((d) => d.allowed).length, 200);
    const requests = Object.values(proxy.counts).reduce((a, b) => a + b);
    assert.ok(requests <= 8, `${requests} requests`);
    const over = await Promise.all(Array.from({ length: 50 }, () => client.check({ userId: "share-0", path: "/api/a" })));
    assert.equal(over.filter((d) => d.allowed).length, 0);
  });

  it("sends checks that come while requests are under way in few requests", async () => {
    let requests = 0;
    const url = await serve(() => { requests++; }); // it never answers
    const { client } = newClient({ url, onFailure: "deny" });
    const start = performance.now();
    const checks: Promise<unknown>[] = [];
    for (let i = 0; i < 50; i++) {
      checks.push(client.check({}, { timeoutMs: 500 }));
      await new Promise(setImmediate);
    }
    const most = 2 * (2 + (performance.now() - start) / 10); // two every 10 ms
    await Promise.all(checks);
    assert.ok(requests <= most, `${requests} requests, at most ${most}`);
  });

  it("reads answers to the end, so that connections are used again", async () => {
    let [ended, brokenOff] = [0, 0];
    const line = (i: number) => `{"index":${i},"decision":{"allowed":true,"reason":"ok","remaining":1}}\n`;
    const url = await serve((_, res) => {
      res.on("close", () => (res.writableFinished ? ended++ : brokenOff++));
      res.write(line(0) + line(1));
      setTimeout(() => res.end(), 10);
    });
    const { client } = newClient({ url });
    await Promise.all([client.check({}), client.check({})]);
    await eventually("the answer has ended", () => ended + brokenOff === 1);
    assert.equal(ended, 1);
  });

  it("ends a request whose answer does not end", async () => {
    let closed = 0;
    const line = (i: number) => `{"index":${i},"decision":{"allowed":true,"reason":"ok","remaining":1}}\n`;
    const url = await serve((_, res) => {
      res.on("close", () => closed++);
      res.write(line(0) + line(1));
    });
    const { client } = newClient({ url });
    await Promise.all([client.check({}), client.check({})]);
    await eventually("the request ends", () => closed === 1);
  });

  it("does not wait for requests that take long", async () => {
    let came = 0;
    const url = await serve((_, res) => { if (++came > 2) res.end('{"allowed":true,"reason":"ok","remaining":1}'); });
    const { client, errors } = newClient({ url, onFailure: "deny" });
    const slow = [1, 2].map(async () => { await sleep(1); return client.check({}, { timeoutMs: 2_000 }); });
    await eventually("two are under way", () => came > 0);
    assert.equal((await client.check({}, { timeoutMs: 1_500 })).degraded, undefined);
    await Promise.all(slow);
    assert.ok(errors.every((e) => e.code === "timeout"));
  });

  it("bounds the length of a batch", async () => {
    const proxy = await counting(gate.url);
    const { client } = newClient({ url: proxy.url });
    const decisions = await Promise.all(Array.from({ length: 12 }, (_, i) => client.check({ userId: `long-${i}`, path: "/api/a", attributes: { a: "가".repeat(2_000) } })));
    assert.ok(decisions.every((d) => d.allowed));
    assert.ok(proxy.bodies.every((body) => Buffer.byteLength(body) <= 17_000) && proxy.bodies.length >= 6, String(proxy.bodies.map((b) => b.length)));
  });

  it("sends a check alone if there is no other", async () => {
    const proxy = await counting(gate.url);
    const { client } = newClient({ url: proxy.url });
    await client.check({ userId: "alone", path: "/api/a" });
    assert.deepEqual(proxy.counts, { "/v1/check": 1 });
  });

  it("sends every check alone with a batch of 1", async () => {
    const proxy = await counting(gate.url);
    const { client } = newClient({ url: proxy.url, maxBatch: 1 });
    await Promise.all(Array.from({ length: 5 }, () => client.check({ userId: "ones", path: "/api/a" })));
    assert.deepEqual(proxy.counts, { "/v1/check": 5 });
  });

  it("does not let an invalid check disturb others", async () => {
    const proxy = await counting(gate.url);
    const { client } = newClient({ url: proxy.url });
    const odd: unknown[] = [{ userId: "\ud800" }, { cost: 1.5 }, { cost: 1e21 }, { user: "a" }, { headers: { a: "b" } }, { attributes: { "\udc00": "a" } }, null, 7];
    const results = await Promise.allSettled([...odd.map((request) => client.check(request as object)), client.check({ userId: "fine", path: "/api/a" })]);
    for (const [i, result] of results.slice(0, -1).entries()) assert.ok(result.status === "rejected" && isCode("invalid")(result.reason), `check ${i}`);
    assert.equal(results.at(-1)!.status, "fulfilled");
    assert.deepEqual(proxy.counts, { "/v1/check": 1 });
  });

  it("does not wait for a check that a rule holds", async () => {
    const { client } = newClient();
    await client.check({ userId: "holds", path: "/queue" });
    const started = performance.now();
    const held = client.check({ userId: "holds", path: "/queue" }).then(() => performance.now() - started);
    const others = await Promise.all([1, 2, 3].map((i) => client.check({ userId: `beside-${i}`, path: "/api/a" })));
    const took = performance.now() - started;
    assert.ok(others.every((d) => d.allowed) && took < (await held), `the others took ${took} ms`);
  });

  it("sends checks alone if the server refuses batches", async () => {
    const counts: Record<string, number> = {};
    const url = await serve((req, res) => {
      counts[req.url!] = (counts[req.url!] ?? 0) + 1;
      if (req.url === "/v1/check:batch") res.writeHead(413).end();
      else res.end('{"allowed":true,"reason":"ok","remaining":1}');
    });
    const { client } = newClient({ url });
    const decisions = await Promise.all(Array.from({ length: 4 }, () => client.check({})));
    assert.ok(decisions.every((d) => d.allowed));
    assert.deepEqual(counts, { "/v1/check:batch": 1, "/v1/check": 4 });
    await Promise.all([client.check({}), client.check({}), client.check({}), client.check({})]);
    assert.deepEqual(counts, { "/v1/check:batch": 3, "/v1/check": 8 }); // of 2 each
  });

  it("bounds the queue", async () => {
    const url = await serve(() => undefined); // never answers
    const { client, errors } = newClient({ url, onFailure: "deny", maxQueue: 3, timeoutMs: 200 });
    const decisions = await Promise.all(Array.from({ length: 5 }, () => client.check({})));
    assert.ok(decisions.every((d) => !d.allowed && d.degraded));
    assert.deepEqual(errors.map((e) => e.code).sort(), ["busy", "busy", "timeout", "timeout", "timeout"]);
  });

  it("gives back what a check took whose caller has left", async () => {
    const settled: string[] = [];
    const gone = new AbortController();
    const url = await serve((req, res) => {
      if (req.url === "/v1/settle") {
        req.on("data", (chunk) => settled.push(String(chunk)));
        res.end('{"returned":1,"charged":0}');
        return;
      }
      gone.abort(new Error("gone")); // the request is under way
      res.write('{"index":0,"decision":{"allowed":true,"reason":"ok","remaining":1,"receipt":"of-0"}}\n');
      res.end('{"index":1,"decision":{"allowed":true,"reason":"ok","remaining":1,"receipt":"of-1"}}\n');
    });
    const { client } = newClient({ url });
    const [left, stays] = [client.check({}, { signal: gone.signal }), client.check({})];
    await assert.rejects(left, /gone/);
    assert.equal((await stays).receipt, "of-1");
    await eventually("the tokens are given back", () => settled.length > 0);
    assert.deepEqual(settled, ['{"receipt":"of-0","actual":0}']);
  });

  it("gives back what a single check took whose caller left as the answer came", async () => {
    const settled: unknown[] = [];
    const gone = new AbortController();
    const { client } = newClient({
      fetch: (url, init) => {
        if (String(url).endsWith("/v1/settle")) {
          settled.push(init?.body);
          return Promise.resolve(new Response('{"returned":1,"charged":0}'));
        }
        gone.abort(new Error("gone"));
        return Promise.resolve(new Response('{"allowed":true,"reason":"ok","remaining":1,"receipt":"alone"}'));
      },
    });
    await assert.rejects(client.check({}, { signal: gone.signal }), /gone/);
    await eventually("the tokens are given back", () => settled.length > 0);
    assert.deepEqual(settled, ['{"receipt":"alone","actual":0}']);
  });
});

describe("a server that is away", () => {
  for (const [onFailure, allowed] of [["allow", true], ["deny", false]] as const) {
    it(`is a decision with "${onFailure}"`, async () => {
      const { client, errors } = newClient({ url: `http://127.0.0.1:${await freePort()}`, onFailure });
      assert.deepEqual(await client.check({ userId: "a" }), { allowed, reason: "store-failure", remaining: 0, degraded: true });
      assert.equal(errors.length, 1);
      assert.equal(errors[0]!.message, "the server cannot be reached: ECONNREFUSED");
      assert.equal(errors[0]!.cause, undefined);
    });
  }

  it('throws with "throw"', async () => {
    const port = await freePort();
    const { client, errors } = newClient({ url: `http://127.0.0.1:${port}`, onFailure: "throw" });
    await assert.rejects(client.check({}), (error) => isCode("network")(error) && !inspect(error).includes(String(port)));
    assert.equal(errors.length, 1);
    await assert.rejects(client.settle("abc", { actual: 1 }), isCode("network"));
  });

  it("is noticed while requests are under way", async () => {
    const own = await startGate(redis);
    const { client } = newClient({ url: own.url, onFailure: "allow" });
    await client.check({ userId: "killed", path: "/queue" });
    const held = client.check({ userId: "killed", path: "/queue", cost: 1 });
    await sleep(20);
    await end(own.process);
    assert.equal((await held).degraded, true);
  });

  it("does not let an invalid request pass", async () => {
    const url = await serve((_, res) => res.writeHead(500, { "content-type": "application/problem+json" }).end('{"detail":"no\\ndecision"}'));
    const { client, errors } = newClient({ url, onFailure: "allow" });
    await assert.rejects(client.check({}), (error) => isCode("invalid")(error) && (error as Error).message === "the server answers 500: no decision");
    assert.equal(errors.length, 0);
  });
});

describe("a rule set that does not exist", () => {
  it("is not allowed, alone and in a batch", async () => {
    const { client, errors } = newClient({ onFailure: "allow" });
    const isUnknown = (error: unknown) => isCode("invalid")(error) && (error as FluxGateError).serverStatus === 404;
    await assert.rejects(client.check({ ruleSet: "unknown" }), isUnknown);
    await Promise.all(Array.from({ length: 5 }, () => assert.rejects(client.check({ ruleSet: "unknown" }), isUnknown)));
    assert.equal(errors.length, 0);
  });

  it("is not meant by a 404 of a proxy", async () => {
    const url = await serve((_, res) => res.writeHead(404, { "content-type": "application/problem+json" }).end('{"detail":"no such page"}'));
    const { client } = newClient({ url, onFailure: "allow" });
    assert.equal((await client.check({})).degraded, true);
  });
});

describe("time", () => {
  it("ends a check of a frozen server", async () => {
    const own = await startGate(redis);
    const { client, errors } = newClient({ url: own.url, onFailure: "allow", timeoutMs: 300 });
    assert.equal((await client.check({ userId: "frozen", path: "/api/a" }, { timeoutMs: 20_000 })).degraded, undefined);
    own.process.kill("SIGSTOP");
    const started = performance.now();
    const decisions = await Promise.all([client.check({}), client.check({}, { timeoutMs: 100 }), client.check({})]);
    const took = performance.now() - started;
    own.process.kill("SIGCONT");
    assert.ok(decisions.every((d) => d.allowed && d.degraded));
    assert.ok(took >= 290 && took < 5_000, `${took} ms`);
    assert.deepEqual(errors.map((e) => e.code), ["timeout", "timeout", "timeout"]);
  });

  it("is sent, so that the server does not hold a request longer", async () => {
    const own = await startGate(redis, "id: conformance\nrules:\n  - {id: queue, onLimitExceed: WAIT_FOR_REFILL, bands: [{capacity: 1, refill: 4s}]}\n");
    const proxy = await counting(own.url);
    const { client } = newClient({ url: proxy.url });
    assert.equal((await client.check({})).allowed, true);
    assert.equal((await client.check({}, { timeoutMs: 1_000 })).reason, "limited");
    const sent = proxy.bodies.map((body) => (JSON.parse(body) as { timeoutMs: number }).timeoutMs);
    assert.ok(sent[0]! > 10_000 && sent[0]! <= 19_900 && sent[1]! >= 1 && sent[1]! <= 900, String(sent));
  });

  it("ends with the caller's signal, whatever the failure mode", async () => {
    const url = await serve(() => undefined);
    const { client, errors } = newClient({ url, onFailure: "allow" });
    const reason = new FluxGateError("busy", "the caller has left");
    await assert.rejects(client.check({}, { signal: AbortSignal.abort(reason) }), reason);
    const controller = new AbortController();
    const calls = [client.check({}, { signal: controller.signal }), client.settle("a", { actual: 1 }, { signal: controller.signal }), client.extend("a", { signal: controller.signal })];
    controller.abort(reason);
    const start = performance.now();
    await Promise.all(calls.map((call) => assert.rejects(call, reason)));
    assert.ok(performance.now() - start < 5_000, "it was not asked again");
    assert.equal(errors.length, 0);
  });

  it("ends the request that all callers have left", async () => {
    let closed = 0;
    const url = await serve((_, res) => { res.once("close", () => closed++); });
    const { client } = newClient({ url, onFailure: "deny", timeoutMs: 1_000 });
    await Promise.all([client.check({}), client.check({}), client.check({})]);
    await eventually("the request ends", () => closed === 1);
  });
});

describe("withReservation", () => {
  const request = { userId: "", path: "/settled", cost: 10 };
  const left = async (userId: string) => (await newClient().client.peek({ userId, path: "/settled" })).remaining;

  it("settles what the work returns", async () => {
    const { client } = newClient();
    const reserved = await client.withReservation({ ...request, userId: "work" }, async (decision) => {
      assert.equal(decision.remaining, 90);
      return Promise.resolve({ result: "done", actual: 3 });
    });
    assert.ok(reserved.allowed);
    assert.equal(reserved.result, "done");
    assert.deepEqual(reserved.settlement, { returned: 7, charged: 0 });
    assert.equal(await left("work"), 97);
  });

  it("settles usage", async () => {
    const { client } = newClient();
    const reserved = await client.withReservation({ userId: "usage", path: "/models", costs: { usd: 500 } }, () => Promise.resolve({ result: 1, usage: { inputTokens: 100, outputTokens: 50 } }));
    assert.ok(reserved.allowed);
    assert.deepEqual(reserved.settlement, { measures: { usd: { returned: 300, charged: 0 } } });
  });

  it("does not run work that is refused", async () => {
    const { client } = newClient();
    const reserved = await client.withReservation({ ...request, userId: "refused", cost: 101 }, () => assert.fail());
    assert.deepEqual([reserved.allowed, reserved.decision.reason], [false, "cost-too-high"]);
  });

  it("keeps the estimate if the work throws, or charges what it reported", async () => {
    const { client } = newClient();
    const failed = new Error("the work failed");
    await assert.rejects(client.withReservation({ ...request, userId: "throws" }, () => Promise.reject(failed)), failed);
    assert.equal(await left("throws"), 90);
    await assert.rejects(
      client.withReservation({ ...request, userId: "reports" }, (_, report) => {
        report({ actual: 4 });
        throw failed;
      }),
      failed,
    );
    assert.equal(await left("reports"), 96);
  });

  it("releases slots if the work throws, and renews them while it runs", async () => {
    const rules = "id: conformance\nrules:\n  - {id: slots, limitScope: USER_ID, bands: [{kind: concurrency, capacity: 1, hold: 3s}]}\n";
    const own = await startGate(redis, rules);
    const { client, errors } = newClient({ url: own.url });
    await assert.rejects(
      client.withReservation({ userId: "slot" }, async () => {
        await sleep(4_500); // longer than hold
        assert.equal((await client.check({ userId: "slot" })).allowed, false);
        throw new Error("the work failed");
      }),
      /the work failed/,
    );
    assert.equal((await client.check({ userId: "slot" })).allowed, true);
    assert.deepEqual(errors, []);
  });

  it("renews the slots of a request that waited from when it took them", async () => {
    const own = await startGate(redis, `id: conformance
rules:
  - {id: queue, path: /queue, onLimitExceed: WAIT_FOR_REFILL, bands: [{capacity: 1, refill: 4s}]}
  - {id: slots, bands: [{kind: concurrency, capacity: 1, hold: 5s}]}
`);
    const { client, errors } = newClient({ url: own.url });
    await client.reserve(await client.check({ path: "/queue" })).end();
    const reserved = await client.withReservation({ path: "/queue" }, async () => {
      await sleep(1_500); // it took the slot 5.5 s ago
      return { result: (await client.check({ path: "/other" })).allowed };
    });
    assert.ok(reserved.allowed && reserved.decision.waitMs! > 2_000, JSON.stringify(reserved));
    assert.equal(reserved.result, false, "another request has its slot");
    assert.deepEqual(errors, []);
  });

  it("renews the slots that are held after another was lost, and reports that once", async () => {
    const bodies: string[] = [];
    const url = await serve((req, res) => {
      void (async () => {
        let body = "";
        for await (const chunk of req) body += String(chunk);
        bodies.push(`${req.url} ${(JSON.parse(body) as { receipt: string }).receipt}`);
        if (req.url === "/v1/settle") return res.writeHead(200).end('{"returned":0,"charged":0}');
        const receipt = bodies.length < 4 ? `,"receipt":"receipt-${bodies.length}${"x".repeat(10_000)}"` : "";
        return res.writeHead(409, { "content-type": "application/problem+json" }).end(`{"detail":"lost"${receipt}}`);
      })();
    });
    const { client, errors } = newClient({ url });
    const held = { rule: "slots", label: "slots", kind: "concurrency", status: "ok", holdMs: 30 };
    const reservation = client.reserve({ allowed: true, remaining: 0, receipt: "receipt-0", bands: [held] } as unknown as Decision);
    await eventually("all slots are lost", () => bodies.length === 4);
    await sleep(50);
    await reservation.end();
    assert.deepEqual(bodies.map((b) => b.slice(0, 20).replace(/x+$/, "")), ["/v1/extend receipt-0", "/v1/extend receipt-1", "/v1/extend receipt-2", "/v1/extend receipt-3", "/v1/settle receipt-3"]);
    assert.deepEqual(errors.map((e) => e.serverStatus), [409]);
    assert.ok(errors[0]!.receipt!.startsWith("receipt-1") && !inspect(errors[0]).includes("receipt-1"));
  });

  it("returns the result if it cannot be settled, and reports it", async () => {
    const { client, errors } = newClient();
    const reserved = await client.withReservation({ ...request, userId: "own" }, async (decision) => {
      await client.settle(decision.receipt!, { actual: 1 });
      return { result: "kept" };
    });
    assert.ok(reserved.allowed && reserved.result === "kept" && isCode("refused")(reserved.settleError));
    assert.deepEqual(errors.map((e) => e.serverStatus), [409]);
  });
});
