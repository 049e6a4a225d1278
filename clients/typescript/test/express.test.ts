import assert from "node:assert/strict";
import { once } from "node:events";
import { connect, createServer } from "node:http2";
import type { AddressInfo } from "node:net";
import { after, before, describe, it } from "node:test";
import express, { type Express, type NextFunction, type Request, type Response as Answer } from "express";
import { FluxGate, FluxGateError } from "@fluxgate/client";
import { limit } from "@fluxgate/client/express";
import { counting, eventually, freePort, startGate, startRedis, token } from "./servers.js";

let redis: string;
let url: string;
const errors: FluxGateError[] = [];

before(async () => {
  redis = await startRedis();
  url = (await startGate(redis)).url;
});

const newClient = (address = url, onFailure: "allow" | "deny" | "throw" = "throw") => new FluxGate({ url: address, token, onFailure, timeoutMs: 20_000, onError: (e) => errors.push(e) });

async function run(app: Express): Promise<string> {
  const server = app.listen(0, "127.0.0.1");
  after(() => { server.closeAllConnections(); server.close(); });
  await once(server, "listening");
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

const byUser = (req: Request) => ({ userId: req.get("X-User") ?? "" });
const get = (address: string, user: string, headers: Record<string, string> = {}) => fetch(address, { headers: { "X-User": user, ...headers } });

describe("the middleware", () => {
  it("limits, and sets the headers of the middleware for Go", async () => {
    const app = express();
    app.use(limit(newClient(), { request: (req: Request) => ({ ...byUser(req), cost: 4 }) }));
    app.get("/api/a", (_, res) => res.send("hello"));
    const address = await run(app);
    const allowed = await get(`${address}/api/a?page=2`, "express");
    assert.equal(await allowed.text(), "hello");
    const reset = Number(allowed.headers.get("x-ratelimit-reset")) - Date.now() / 1000;
    assert.ok(reset > 1400 && reset < 1450, String(reset));
    assert.equal(allowed.headers.get("x-ratelimit-limit"), "10");
    assert.equal(allowed.headers.get("x-ratelimit-remaining"), "6");
    assert.equal(allowed.headers.get("ratelimit-policy"), '"per-user.hour";q=10;w=3600');
    assert.match(allowed.headers.get("ratelimit")!, /^"per-user.hour";r=6;t=3[0-9]{2}$/);
    assert.equal(allowed.headers.get("retry-after"), null);
    await get(`${address}/api/a`, "express");
    const rejected = await get(`${address}/api/a`, "express");
    assert.equal(rejected.status, 429);
    const retry = Number(rejected.headers.get("retry-after"));
    assert.ok(Number.isInteger(retry) && retry >= 700 && retry <= 720, String(retry));
    assert.match(rejected.headers.get("ratelimit")!, /^"per-user.hour";r=2;t=3[0-9]{2}$/);
    assert.equal(rejected.headers.get("content-type"), "application/problem+json");
    assert.equal(rejected.headers.get("cache-control"), "no-store");
    assert.deepEqual(await rejected.json(), {
      type: "https://iana.org/assignments/http-problem-types#quota-exceeded",
      title: "Request cannot be satisfied as assigned quota has been exceeded",
      status: 429,
      detail: `per-user.hour has 2 of 10 left, and the request costs 4. Try again in ${retry}s.`,
      reason: "limited",
      "violated-policies": ["per-user.hour"],
    });
    assert.equal((await get(`${address}/api/a`, "another")).status, 200);
  });

  it("answers as the middleware for Go, which the server's forward-auth endpoint runs", async () => {
    const bands = (capacity: number) => Array.from({ length: 5 }, (_, i) => `{label: b${i}, capacity: ${capacity - i}, refillTokens: 2, refill: ${i + 1}h}`).join(", ");
    const own = await startGate(redis, `id: conformance
rules:
  - {id: kinds, path: /kinds, limitScope: IP, bands: [{capacity: 3, refill: 90s}, {capacity: 5, refill: 3600500ms}, {kind: sliding-window, capacity: 7, period: 2d}, {kind: quota, capacity: 8, period: month}]}
  - {id: planned, path: /kinds, mode: shadow, limitScope: IP, bands: [{capacity: 1, refill: 1h}]}
  - {id: money, path: /kinds, cost: usd, limitScope: IP, bands: [{kind: quota, capacity: 8, period: day}]}
  - {id: many, path: /many, priority: 5, limitScope: IP, bands: [${bands(20)}]}
  - {id: more, path: /many, limitScope: IP, bands: [${bands(6)}]}
  - {id: blocked, path: /blocked, action: deny}
`);
    const app = express();
    app.use(limit(newClient(own.url), { ip: () => "192.0.2.1", request: () => ({ cost: 1 }) }));
    app.use((_: Request, res: Answer) => res.send("hello"));
    const address = await run(app);
    const names = ["x-ratelimit-limit", "x-ratelimit-remaining", "ratelimit-policy", "ratelimit", "retry-after", "content-type", "cache-control"];
    for (const path of ["/kinds", "/kinds", "/kinds", "/kinds", "/many", "/many", "/many", "/blocked"]) {
      const ours = await fetch(address + path);
      const theirs = await fetch(`${own.url}/v1/forward-auth`, { headers: { "X-Forwarded-Method": "GET", "X-Forwarded-Uri": path, "X-Forwarded-Host": "h", "X-Forwarded-For": "192.0.2.2" } });
      const shown = (answer: Response) => names.slice(0, answer.status < 300 ? 5 : 7).map((name) => `${name}: ${answer.headers.get(name)?.replace(/(t=|^)\d{2,}$|t=\d{2,}(?=,)/g, "$1…") ?? ""}`);
      assert.deepEqual(shown(ours), shown(theirs), path);
      if (ours.status >= 300) {
        const [problem, wanted] = [await ours.text(), theirs.headers.get("X-Fluxgate-Problem") ?? (await theirs.text())];
        assert.equal(problem.replace(/\d+s\./, "…"), wanted.replace(/\d+s\./, "…"));
      }
    }
  });

  it("answers other reasons with their status", async () => {
    const app = express();
    app.use(limit(newClient(), { request: (req: Request) => ({ userId: "reasons", cost: Number(req.get("X-Cost") ?? 1) }) }));
    app.use((_: Request, res: Answer) => res.send("hello"));
    const address = await run(app);
    const cases: [string, number, string, string?][] = [["/blocked", 403, "denied"], ["/keys", 403, "missing-identity"], ["/api/a", 429, "cost-too-high", "11"]];
    for (const [path, status, reason, cost] of cases) {
      const answer = await get(address + path, "", cost === undefined ? {} : { "X-Cost": cost });
      assert.deepEqual([answer.status, ((await answer.json()) as { reason: string }).reason, answer.headers.get("retry-after")], [status, reason, null]);
    }
    const exempt = await get(`${address}/friends`, "");
    assert.deepEqual([exempt.status, exempt.headers.get("ratelimit")], [200, null]);
  });

  it("takes the address of the connection, whatever headers say", async () => {
    const own = await startGate(redis, "id: conformance\nrules:\n  - {id: per-ip, limitScope: IP, bands: [{capacity: 2, refill: 1h}]}\n");
    const app = express();
    app.set("trust proxy", true);
    app.use("/forgeable", limit(newClient(own.url), { ip: (req: Request) => req.ip }));
    app.use(limit(newClient(own.url)));
    app.use((_: Request, res: Answer) => res.send("hello"));
    const address = await run(app);
    const statuses: number[] = [];
    for (let i = 0; i < 4; i++) statuses.push((await get(address, "", { "X-Forwarded-For": `192.0.2.${i}`, Forwarded: `for=192.0.2.${i}`, "X-Real-IP": `192.0.2.${i}` })).status);
    assert.deepEqual(statuses, [200, 200, 429, 429]);
    const last = await get(address, "");
    assert.match(last.headers.get("ratelimit-policy")!, /^"per-ip\.2-per-1h";q=2;w=3600$/);
  });

  it("does not trust networks that are none, or too wide", () => {
    for (const proxy of ["", "proxy", "0.0.0.0/0", "10.0.0.0/7", "10.0.0.1/8", "10.0.0.0/33", "::/0", "::ffff:0:0/96", "::ffff:128.0.0.0/97", "2001:db8::1/32", "[::1]", "10.0.0.1:80", "fe80::1%eth0", "010.0.0.1", "0.0.0.0"]) {
      assert.throws(() => limit(newClient(), { trustedProxies: [proxy] }), TypeError, proxy);
    }
    limit(newClient(), { trustedProxies: ["10.0.0.0/8", "192.0.2.1", "fc00::/7", "::1", "::ffff:192.0.2.0/120"] });
  });

  it("sends what rules look at, without credentials and the query", async () => {
    const proxy = await counting(url);
    const app = express();
    const router = express.Router();
    router.use(limit(newClient(proxy.url)));
    app.use("/api", router);
    app.use("/one", limit(newClient(proxy.url), { headers: ["X-One", "Cookie"] }));
    app.use((_: Request, res: Answer) => res.send(res.locals["fluxgate"]));
    const address = await run(app);
    const headers = { Authorization: "Bearer hush", Cookie: "hush=1", "Proxy-Authorization": "hush", "X-One": "1", "X-Two": "2" };
    const decision = (await (await get(`${address}/api/%61//b?token=hush`, "u", headers)).json()) as { reason: string };
    await get(`${address}/one`, "u", headers);
    const [first, second] = proxy.bodies.map((body) => JSON.parse(body) as Record<string, unknown>);
    assert.equal(typeof decision.reason, "string");
    assert.doesNotMatch(proxy.bodies[0]!, /hush/);
    assert.equal(first!["path"], "/api/%61//b");
    assert.equal(first!["method"], "GET");
    assert.equal(first!["ip"], "127.0.0.1");
    assert.equal(first!["host"], new URL(address).host);
    assert.deepEqual((first!["headers"] as Record<string, unknown>)["x-two"], ["2"]);
    assert.deepEqual(second!["headers"], { cookie: ["hush=1"], "x-one": ["1"] });
  });

  it("decides over HTTP/2 as over HTTP/1.1: by host and headers", async () => {
    const own = await startGate(redis, `id: conformance
rules:
  - {id: by-host, action: deny, when: {hosts: [blocked.example]}}
  - {id: by-header, action: deny, when: {headers: {X-Plan: [free]}}}
  - {id: by-cookie, action: deny, when: {headers: {Cookie: ["a=1; b=2"]}}}
`);
    const middleware = limit(newClient(own.url), { headers: ["x-plan", "cookie"] });
    const server = createServer((req, res) => { void middleware(req, res, (error) => { res.statusCode = error ? 500 : 200; res.end(); }); }).listen(0, "127.0.0.1");
    await once(server, "listening");
    const session = connect(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
    after(() => { session.destroy(); server.close(); });
    const status = async (headers: Record<string, string | string[]>) => {
      const stream = session.request(headers).resume().end();
      const [answer] = (await once(stream, "response")) as [Record<string, unknown>];
      return answer[":status"];
    };
    assert.equal(await status({ ":authority": "other.example" }), 200);
    assert.equal(await status({ ":authority": "blocked.example" }), 403);
    assert.equal(await status({ ":authority": "blocked.example", host: "other.example" }), 403);
    assert.equal(await status({ host: "blocked.example" }), 403, "a proxy may send Host instead of :authority");
    assert.equal(await status({ "x-plan": "free" }), 403);
    assert.equal(await status({ "x-plan": ["paid", "free"] }), 403, "each line counts");
    assert.equal(await status({ cookie: ["a=1", "b=2"] }), 403, "HTTP/2 may send a cookie in parts");
    assert.equal(await status({ "x-plan": "paid" }), 200);
  });

  it("holds a slot until the response has ended, also without one", async () => {
    const app = express();
    const pending: Answer[] = [];
    app.use(limit(newClient(), { request: byUser }));
    app.get("/slots", (_, res) => { pending.push(res); });
    const address = await run(app);
    const first = get(`${address}/slots`, "slots-of-express");
    await eventually("the first is there", () => pending.length === 1);
    assert.equal((await get(`${address}/slots`, "slots-of-express")).status, 429);
    pending[0]!.send("done");
    assert.equal((await first).status, 200);
    const controller = new AbortController();
    const passes = async () => {
      const answer = fetch(`${address}/slots`, { headers: { "X-User": "slots-of-express" }, signal: controller.signal });
      const before = pending.length;
      const status = await Promise.race([answer.then((a) => a.status, () => 0), eventually("it is there", () => pending.length > before).then(() => 200)]);
      return status === 200;
    };
    await eventually("the slot is free", passes);
    controller.abort(); // the client leaves
    await eventually("the slot is free again", async () => (await newClient().check({ userId: "slots-of-express", path: "/slots" })).allowed);
    assert.deepEqual(errors.splice(0), []);
  });

  it("does not check a request whose client has left", async () => {
    const proxy = await counting(url);
    const app = express();
    let came = 0;
    let passed = 0;
    app.use((_, res, next) => { came++; res.once("close", () => { passed++; setImmediate(next); }); });
    app.use(limit(newClient(proxy.url), { request: byUser }));
    const address = await run(app);
    const controller = new AbortController();
    const left = fetch(`${address}/slots`, { headers: { "X-User": "left" }, signal: controller.signal });
    await eventually("the request is there", () => came === 1);
    controller.abort();
    await assert.rejects(left);
    await eventually("the client has left", () => passed === 1);
    await new Promise((done) => setTimeout(done, 50)); // time for a request that must not come
    assert.deepEqual(proxy.counts, {});
  });

  it("does not check a request over HTTP/2 whose client has left", async () => {
    const proxy = await counting(url);
    const middleware = limit(newClient(proxy.url), { request: () => ({ userId: "left" }) });
    let passed = false;
    const server = createServer((req, res) => { res.once("close", () => { setImmediate(() => { void middleware(req, res, () => undefined).then(() => { passed = true; }); }); }); }).listen(0, "127.0.0.1");
    await once(server, "listening");
    const session = connect(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
    after(() => { session.destroy(); server.close(); });
    const stream = session.request({ ":path": "/api/left" });
    stream.on("error", () => undefined);
    await once(server, "request");
    stream.close();
    await eventually("the middleware was called", () => passed);
    assert.deepEqual(proxy.counts, {});
  });

  it("passes failures on, or decides as the client does", async () => {
    const away = `http://127.0.0.1:${await freePort()}`;
    for (const [onFailure, status] of [["allow", 200], ["deny", 503], ["throw", 500]] as const) {
      const app = express();
      const passed: unknown[] = [];
      app.use(limit(newClient(away, onFailure)));
      app.use((_: Request, res: Answer) => res.send("hello"));
      // eslint-disable-next-line @typescript-eslint/no-unused-vars -- Express counts parameters
      app.use((error: unknown, _: Request, res: Answer, _next: NextFunction) => { passed.push(error); res.status(500).end(); });
      assert.equal((await get(await run(app), "")).status, status);
      assert.deepEqual(passed.map((e) => (e as FluxGateError).code), onFailure === "throw" ? ["network"] : []);
    }
    assert.equal(errors.splice(0).length, 3);
    const app = express();
    app.use(limit(newClient(), { request: () => { throw new Error("no user"); } }));
    app.use((_: Request, res: Answer) => res.send("hello"));
    // eslint-disable-next-line @typescript-eslint/no-unused-vars -- Express counts parameters
    app.use((error: Error, _: Request, res: Answer, _next: NextFunction) => res.status(500).send(error.message));
    const answer = await get(await run(app), "");
    assert.deepEqual([answer.status, await answer.text()], [500, "no user"]);
  });

  it("lets the service answer rejections", async () => {
    const app = express();
    app.use(limit(newClient(), { onRejected: (_, res, decision) => { res.end(`no: ${decision.reason}`); } }));
    const answer = await get(`${await run(app)}/blocked`, "");
    assert.deepEqual([answer.status, await answer.text()], [403, "no: denied"]);
  });

  it("passes on what an async onRejected throws", async () => {
    const app = express();
    app.use(limit(newClient(), { onRejected: () => Promise.reject(new Error("no template")) }));
    // eslint-disable-next-line @typescript-eslint/no-unused-vars -- Express counts parameters
    app.use((error: Error, _: Request, res: Answer, _next: NextFunction) => res.status(500).send(error.message));
    const answer = await get(`${await run(app)}/blocked`, "");
    assert.deepEqual([answer.status, await answer.text()], [500, "no template"]);
  });
});
