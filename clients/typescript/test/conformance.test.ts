import assert from "node:assert/strict";
import { join } from "node:path";
import { before, describe, it } from "node:test";
import { FluxGate, FluxGateError, type Actual, type CheckRequest } from "@fluxgate/client";
import { conformance, freePort, readJSON, startGate, startRedis } from "./servers.js";

interface Step {
  check?: CheckRequest;
  settle?: { receipt: string } & Actual;
  extend?: { receipt: string };
  together?: Step[];
  raw?: { path: string; body?: unknown; text?: string };
  token?: string;
  save?: string;
  answer?: unknown;
  error?: { status: number; detail?: string };
}

interface Case {
  name: string;
  server?: string;
  steps: Step[];
}

const file = readJSON(join(conformance, "cases.json")) as { tokens: Record<string, string>; cases: Case[] };

class Run {
  readonly receipts: Record<string, string> = {};
  readonly clients: Record<string, FluxGate> = {};

  constructor(readonly url: string) {
    for (const token of Object.values(file.tokens)) this.clients[token] = new FluxGate({ url, token, onFailure: "throw", timeoutMs: 20_000 });
  }

  async step(step: Step, place: string): Promise<void> {
    if (step.together) {
      await Promise.all(step.together.map((s, i) => this.step(s, `${place}.${i + 1}`)));
      return;
    }
    assert.notEqual(step.answer === undefined, step.error === undefined, `${place} must have an answer or an error`);
    let answer: unknown;
    try {
      answer = await this.perform(step);
    } catch (error) {
      assert.ok(step.error && error instanceof FluxGateError, `${place}: ${String(error)}`);
      // Without a status the client has refused the request itself.
      assert.equal(error.serverStatus ?? 400, step.error.status, `${place}: ${error.message}`);
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
      const decision = await (peek ? client.peek(request) : client.check(request));
      if (step.save !== undefined) this.receipts[step.save] = decision.receipt!;
      return decision;
    }
    if (step.settle) {
      const { receipt: name, ...actual } = step.settle;
      return client.settle(receipt(name), actual);
    }
    if (step.extend) {
      const { receipt: name } = step.extend;
      const renewed = await client.extend(receipt(name));
      this.receipts[name.slice(1)] = renewed;
      return { receipt: renewed };
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

describe("conformance cases", () => {
  const urls: Record<string, string> = {};
  before(async () => {
    urls[""] = (await startGate(await startRedis())).url;
    urls["without-redis"] = (await startGate(`redis://127.0.0.1:${await freePort()}`)).url;
  });
  assert.ok(file.cases.length >= 25);
  for (const c of file.cases) {
    it(c.name, async () => {
      const run = new Run(urls[c.server ?? ""]!);
      for (const [i, step] of c.steps.entries()) await run.step(step, `step ${i + 1}`);
    });
  }
});
