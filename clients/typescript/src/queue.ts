import { readDecision, readLine } from "./answer.js";
import { FluxGateError, notAnswer } from "./errors.js";
import { lines, pauseAfter, timedOut, type Exchange } from "./exchange.js";
import { byteLength } from "./request.js";
import type { Decision } from "./types.js";

/** How many requests are under way before further checks share the next one. */
const maxCalls = 2;

/**
 * How long a request counts as under way, in milliseconds: callers do not wait for a
 * server that is far away, or for a check that a rule holds.
 */
const maxCallAge = 10;

/** How long smaller batches are sent after the server refused one, in milliseconds. */
const refusedTime = 60_000;

/** The longest body of a batch in bytes. A server limits how many longer ones it reads at the same time. */
const maxBatchBytes = 16 << 10;

/** At most so much of a caller's time is left for the network, in milliseconds. */
const maxReserve = 100;

/** How long an answer may take to end when nobody waits for a line of it any longer, in milliseconds. */
const maxEnd = 1_000;

// Statuses with which a server refuses a batch as a whole, and has decided nothing.
const refusesBatch = new Set([400, 404, 405, 413]);

/** A check that waits for its turn or for its answer. */
interface Pending {
  readonly text: string;
  readonly bytes: number;
  readonly until: number;
  readonly reserve: number;
  /** Answers the check. It returns false if it has an answer, or its caller has left. */
  finish: (answer: Decision | undefined, error?: unknown) => boolean;
  done: boolean;
  tries: number; // that the server was too busy for
  call?: Call | undefined;
}

/** A request with the checks of several callers. */
interface Call {
  readonly checks: Pending[];
  readonly controller: AbortController;
  open: number; // checks without an answer whose callers have not left
}

/** Queue sends checks that arrive together, or while requests are under way, in one request. */
export class Queue {
  readonly #exchange: Exchange;
  readonly #maxBatch: number;
  readonly #maxQueue: number;
  readonly #unwanted: (receipt: string) => void;
  #waiting: Pending[] = [];
  #calls = 0; // under way, and younger than maxCallAge
  #accepted: number; // the largest batch that the server has not refused
  #refusedAt = -Infinity;

  /** unwanted gets the receipts of callers that have left. */
  constructor(exchange: Exchange, maxBatch: number, maxQueue: number, unwanted: (receipt: string) => void) {
    this.#exchange = exchange;
    this.#accepted = this.#maxBatch = maxBatch;
    this.#maxQueue = maxQueue;
    this.#unwanted = unwanted;
  }

  /** Decides a check. It fails when the time is over, or with the reason of the signal. */
  add(text: string, timeoutMs: number, signal: AbortSignal | undefined): Promise<Decision> {
    if (this.#waiting.length >= this.#maxQueue) return Promise.reject(new FluxGateError("busy", `more than ${this.#maxQueue} checks wait`));
    return new Promise((resolve, reject) => {
      const p: Pending = {
        text,
        bytes: byteLength(text),
        until: performance.now() + timeoutMs,
        reserve: Math.min(timeoutMs / 2, maxReserve),
        done: false,
        tries: 0,
        finish: (answer, error) => {
          if (p.done) return false;
          p.done = true;
          clearTimeout(timer);
          signal?.removeEventListener("abort", abort);
          if (p.call) p.call.open--;
          if (answer) resolve(answer);
          else reject(error as Error);
          return true;
        },
      };
      const leave = (reason: unknown) => {
        p.finish(undefined, reason);
        if (p.call?.open === 0) p.call.controller.abort(reason);
      };
      const abort = () => { leave(signal?.reason); };
      const timer = setTimeout(() => { leave(timedOut()); }, timeoutMs);
      signal?.addEventListener("abort", abort);
      this.#waiting.push(p);
      // Checks of the same turn share a request.
      if (this.#waiting.length === 1) queueMicrotask(() => { this.#next(); });
    });
  }

  /** Starts requests for the waiting checks. */
  #next(): void {
    while (this.#calls < maxCalls && this.#waiting.length > 0) {
      const checks = this.#cut();
      if (checks.length > 0) this.#begin(checks);
    }
  }

  /** Removes the next checks from the queue, and those whose callers have left. */
  #cut(): Pending[] {
    if (performance.now() - this.#refusedAt > refusedTime) this.#accepted = this.#maxBatch;
    const checks: Pending[] = [];
    let [n, bytes] = [0, 0];
    for (const p of this.#waiting) {
      if (!p.done) {
        bytes += p.bytes + 32; // its timeoutMs
        if (checks.length === this.#accepted || (checks.length > 0 && bytes > maxBatchBytes)) break;
        checks.push(p);
      }
      n++;
    }
    this.#waiting = this.#waiting.slice(n);
    return checks;
  }

  /** Sends checks, and counts the request until it ends or is older than maxCallAge. */
  #begin(checks: Pending[]): void {
    let counted = true;
    const free = () => {
      if (!counted) return;
      counted = false;
      clearTimeout(timer);
      this.#calls--;
      this.#next();
    };
    const timer = setTimeout(free, maxCallAge);
    this.#calls++;
    void this.#send(checks).then(free);
  }

  /** Sends checks and answers all of them. It never fails. */
  async #send(checks: Pending[]): Promise<void> {
    const call: Call = { checks, controller: new AbortController(), open: checks.length };
    for (const p of checks) p.call = call;
    try {
      await (checks.length === 1 ? this.#sendAlone(call) : this.#sendBatch(call));
    } catch (error) {
      if (checks.length > 1 && error instanceof FluxGateError && refusesBatch.has(error.serverStatus ?? 0)) {
        this.#accepted = Math.max(1, Math.min(this.#accepted, checks.length >> 1));
        this.#refusedAt = performance.now();
        await Promise.all(checks.filter((p) => !p.done).map((p) => this.#send([p])));
        return;
      }
      for (const p of checks) this.#again(p, error);
    }
  }

  /** Sends a check again that a busy server has not decided. Others have failed. */
  #again(p: Pending, error: unknown): void {
    const pause = p.done ? undefined : pauseAfter(error, p.tries++, p.until);
    if (pause === undefined) {
      p.finish(undefined, error);
      return;
    }
    p.call = undefined;
    setTimeout(() => {
      this.#waiting.push(p);
      this.#next();
    }, pause);
  }

  async #sendAlone(call: Call): Promise<void> {
    const [p, { signal }] = [call.checks[0]!, call.controller];
    this.#answer(p, readDecision(await this.#exchange.json("/v1/check", body(p), signal)));
  }

  async #sendBatch(call: Call): Promise<void> {
    const [{ checks }, { signal }] = [call, call.controller];
    const response = await this.#exchange.post("/v1/check:batch", `{"requests":[${checks.map(body).join()}]}`, signal, "application/x-ndjson");
    let left = checks.length;
    let timer: ReturnType<typeof setTimeout> | undefined;
    try {
      // To the end, so that the connection is reused.
      for await (const line of lines(response, signal)) {
        if (left-- === 0) break;
        const [index, entry] = readLine(line, checks.length, this.#exchange.refusal);
        if (entry instanceof FluxGateError) checks[index]!.finish(undefined, entry);
        else this.#answer(checks[index]!, entry);
        // Nobody waits any longer: those without an answer have left.
        if (left === 0 || call.open === 0) timer ??= setTimeout(() => { call.controller.abort(notAnswer()); }, maxEnd);
      }
    } finally {
      clearTimeout(timer);
    }
    throw notAnswer(); // for those without an answer
  }

  #answer(p: Pending, decision: Decision): void {
    if (!p.finish(decision) && decision.receipt !== undefined) this.#unwanted(decision.receipt);
  }
}

/** A check as JSON, with the time that its caller still waits. */
function body(p: Pending): string {
  const timeoutMs = Math.max(1, Math.floor(p.until - performance.now() - p.reserve));
  return `{"timeoutMs":${timeoutMs}${p.text === "{}" ? "" : ","}${p.text.slice(1)}`;
}
