import assert from "node:assert/strict";
import { join } from "node:path";
import { before, describe, it } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { FluxGate, FluxGateError, type Actual, type CheckRequest, type OnFailure } from "@fluxgate/client";
import { startApp, type AppOptions } from "./app.js";
import { conformance, freePort, readJSON, startGate, startHarness, startRedis } from "./servers.js";

interface Step {
  check?: CheckRequest;
  settle?: { receipt: string } & Actual;
  extend?: { receipt: string };
  together?: Step[];
  raw?: { path: string; body?: unknown; text?: string };
  send?: object;
  seen?: unknown;
  token?: string;
  save?: string;
  afterMs?: number;
  leaveAfterMs?: number;
  withinMs?: number;
  answer?: unknown;
  error?: { status: number; detail?: string };
}

interface Case {
  group: string;
  name: string;
  server?: string;
  client?: { timeoutMs?: number; onFailure?: OnFailure };
  middleware?: AppOptions;
  steps: Step[];
}

const file = readJSON(join(conformance, "cases.json")) as { tokens: Record<string, string>; cases: Case[] };

class Run {
  readonly receipts: Record<string, string> = {};
  readonly clients: Record<string, FluxGate> = {};
  app = "";

  constructor(readonly of: Case, readonly url: string, readonly harness: string) {
    const { timeoutMs = 20_000, onFailure = "throw" } = of.client ?? {};
    for (const token of Object.values(file.tokens)) this.clients[token] = new FluxGate({ url, token, onFailure, timeoutMs });
  }

  async start(): Promise<void> {
    if (this.of.middleware) this.app = await startApp(this.clients[file.tokens["gateway"]!]!, this.of.middleware);
  }

  async step(step: Step, place: string): Promise<void> {
    if (step.together) {
      await Promise.all(step.together.map((s, i) => this.step(s, `${place}.${i + 1}`)));
      return;
    }
    await sleep(step.afterMs ?? 0);
    if (step.seen !== undefined) {
      await this.waitFor(step.seen, place);
      return;
    }
    const begin = performance.now();
    try {
      await this.compare(step, place);
    } finally {
      const took = performance.now() - begin;
      assert.ok(took <= (step.withinMs ?? Infinity), `${place} took ${took} ms`);
    }
  }

  /** Waits until the harness has seen what a step wants. */
  async waitFor(want: unknown, place: string): Promise<void> {
    for (const until = Date.now() + 5_000; ; await sleep(20)) {
      try {
        match(await (await fetch(`${this.url}/seen`)).json(), want, place);
        return;
      } catch (error) {
        if (Date.now() > until) throw error;
      }
    }
  }

  async compare(step: Step, place: string): Promise<void> {
    assert.notEqual(step.answer === undefined, step.error === undefined, `${place} must have an answer or an error`);
    let answer: unknown;
    try {
      answer = await this.perform(step);
    } catch (error) {
      if (step.leaveAfterMs !== undefined && (error as Error).name === "TimeoutError") return; // of the signal
      assert.ok(step.error && error instanceof FluxGateError, `${place}: ${String(error)}`);
      // An invalid request without a status was refused by the client.
      assert.equal(error.serverStatus ?? (error.code === "invalid" ? 400 : 0), step.error.status, `${place}: ${error.message}`);
      if (step.error.detail !== undefined && error.serverStatus !== undefined) assert.ok(error.message.endsWith(step.error.detail), `${place}: ${error.message}`);
      return;
    }
    assert.ok(!step.error, `${place}: there is an answer: ${JSON.stringify(answer)}`);
    match(answer, step.answer, place);
  }

  async perform(step: Step): Promise<unknown> {
    const token = file.tokens[step.token ?? "gateway"]!;
    const client = this.clients[token]!;
    const receipt = (name: string) => (name.startsWith("$") ? this.receipts[name.slice(1)]! : name);
    if (step.check) {
      const { peek, ...request } = step.check;
      const options = step.leaveAfterMs === undefined ? {} : { signal: AbortSignal.timeout(step.leaveAfterMs) };
      const decision = await (peek ? client.peek(request) : client.check(request, options));
      if (step.save !== undefined) this.receipts[step.save] = decision.receipt!;
      return decision;
    }
    if (step.settle) {
      const { receipt: name, ...actual } = step.settle;
      return client.settle(receipt(name), actual);
    }
    if (step.extend) {
      const { receipt: name } = step.extend;
      try {
        const renewed = await client.extend(receipt(name));
        this.receipts[name.slice(1)] = renewed;
        return { receipt: renewed };
      } catch (error) {
        if (error instanceof FluxGateError && error.receipt !== undefined) this.receipts[name.slice(1)] = error.receipt;
        throw error;
      }
    }
    if (step.send) {
      const answer = await fetch(`${this.harness}/send`, { method: "POST", body: JSON.stringify({ ...step.send, to: this.app, http: this.of.middleware?.http ?? 1 }) });
      assert.equal(answer.status, 200, answer.ok ? "" : await answer.text());
      return answer.json();
    }
    const { path, body, text } = step.raw!;
    const raw = (text ?? JSON.stringify(body)).replace(/"\$(\w+)"/g, (_, name: string) => JSON.stringify(receipt(`$${name}`)));
    const answer = await fetch(this.url + path, { method: "POST", body: raw, headers: { Authorization: `Bearer ${token}`, "Content-Type": "application/json" } });
    const read = (await answer.json()) as { detail?: string };
    if (answer.status !== 200) throw new FluxGateError("refused", read.detail ?? "", answer.status);
    return read;
  }
}

/** Fails if an answer is not as wanted. Fields that are not mentioned may have any value. */
function match(got: unknown, want: unknown, place: string): void {
  if (Array.isArray(want)) {
    assert.ok(Array.isArray(got) && got.length === want.length, `${place}: ${JSON.stringify(got)} must have ${want.length} entries`);
    want.forEach((w, i) => { match(got[i], w, `${place}[${i}]`); });
    return;
  }
  if (typeof want !== "object" || want === null) {
    assert.equal(got, want, place);
    return;
  }
  if ("$from" in want) {
    const { $from, $to = Infinity } = want as { $from: number; $to?: number };
    assert.ok(typeof got === "number" && got >= $from && got <= $to, `${place}: ${String(got)} is not from ${$from} to ${$to}`);
    return;
  }
  assert.ok(typeof got === "object" && got !== null, `${place}: not an object`);
  for (const [name, w] of Object.entries(want)) {
    if (w === "$present" || w === "$absent") assert.equal(Object.hasOwn(got, name), w === "$present", `${place}.${name} must be ${w.slice(1)}`);
    else match((got as Record<string, unknown>)[name], w, `${place}.${name}`);
  }
}

describe("conformance cases", { concurrency: 8 }, () => {
  const urls: Record<string, string> = {};
  before(async () => {
    urls[""] = (await startGate(await startRedis())).url;
    urls["without-redis"] = (await startGate(`redis://127.0.0.1:${await freePort()}`)).url;
    urls["harness"] = await startHarness();
  });
  assert.ok(file.cases.length >= 50);
  for (const [n, c] of file.cases.entries()) {
    it(`${c.group}: ${c.name}`, async () => {
      const url = c.server === "harness" ? `${urls["harness"]!}/cases/${n}` : urls[c.server ?? ""]!;
      const run = new Run(c, url, urls["harness"]!);
      await run.start();
      for (const [i, step] of c.steps.entries()) await run.step(step, `step ${i + 1}`);
    });
  }
});
