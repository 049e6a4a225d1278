import { FluxGateError } from "./errors.js";
import type { FluxGate } from "./client.js";
import type { Actual, Decision, Settlement, Settlements } from "./types.js";

/** What a request has cost. An empty object means as much as it was estimated to cost. */
export type Cost = Actual | { actual?: undefined; usage?: undefined };

/** Work that was let in. `report` sets the cost so far, which counts if the work throws. */
export type Work<T> = (decision: Decision, report: (cost: Cost) => void) => Promise<{ result: T } & Cost>;

/** The result of a reservation. */
export type Reserved<T> =
  | { allowed: false; decision: Decision }
  | {
      allowed: true;
      decision: Decision;
      result: T;
      /** What was given back or charged, if the request was settled. */
      settlement?: Settlement | Settlements;
      /** Why it could not be settled. `onError` was called with it. */
      settleError?: unknown;
    };

/** A request that was let in and is not settled yet. */
export class Reservation {
  readonly #client: FluxGate;
  readonly #decision: Decision;
  readonly #cost: number;
  /** @internal */
  readonly report: (error: unknown) => void;
  #receipt: string | undefined;
  #renewal = Promise.resolve();
  #lost = false;
  #timer: ReturnType<typeof setTimeout> | undefined;

  /** @internal */
  constructor(client: FluxGate, decision: Decision, cost: number, report: (error: unknown) => void) {
    this.#client = client;
    this.#decision = decision;
    this.#cost = cost;
    this.report = report;
    this.#receipt = decision.receipt;
    const holds = (decision.bands ?? []).filter((b) => b.kind === "concurrency" && b.status === "ok" && b.holdMs).map((b) => b.holdMs!);
    if (this.#receipt === undefined || holds.length === 0) return;
    const every = Math.min(Math.max(Math.min(...holds) / 3, 1), 2 ** 31 - 1);
    let renewing = false;
    const renew = () => {
      if (renewing) return;
      renewing = true;
      this.#renewal = this.#renew().finally(() => { renewing = false; });
    };
    // A request that has waited took its slots before that.
    this.#timer = setTimeout(() => {
      this.#timer = setInterval(renew, every);
      renew();
    }, Math.max(every - (decision.waitMs ?? 0), 0));
  }

  async #renew(): Promise<void> {
    try {
      this.#receipt = await this.#client.extend(this.#receipt!);
    } catch (error) {
      const lost = error instanceof FluxGateError && error.serverStatus === 409;
      if (lost && error.receipt !== undefined) { // a part of the slots
        this.#receipt = error.receipt;
        if (!this.#lost) this.report(error);
        this.#lost = true;
      } else if (lost) clearInterval(this.#timer); // all, or settled by the work itself
      else this.report(error);
    }
  }

  /** Settles the request and releases its slots. Without a cost it stays charged at its estimate. */
  async end(cost: Cost = {}): Promise<Settlement | Settlements | undefined> {
    clearInterval(this.#timer);
    await this.#renewal;
    const receipt = this.#receipt;
    this.#receipt = undefined;
    if (receipt === undefined) return undefined;
    const { actual = this.#cost, usage } = cost;
    return this.#client.settle(receipt, usage === undefined ? { actual } : { usage });
  }

  /** @internal */
  async run<T>(work: Work<T>): Promise<Reserved<T>> {
    const decision = this.#decision;
    let cost: Cost = {};
    try {
      const done = await work(decision, (soFar) => { cost = soFar; });
      const { actual, usage } = done;
      if (actual !== undefined || usage !== undefined) cost = { actual, usage } as Cost;
      const settled = await this.#settle(cost);
      return { allowed: true, decision, result: done.result, ...settled };
    } catch (error) {
      await this.#settle(cost);
      throw error;
    }
  }

  /** Like end, with the failure as a value: the result of the work is not lost. */
  async #settle(cost: Cost): Promise<{ settlement?: Settlement | Settlements; settleError?: unknown }> {
    try {
      const settlement = await this.end(cost);
      return settlement === undefined ? {} : { settlement };
    } catch (settleError) {
      this.report(settleError);
      return { settleError };
    }
  }
}
