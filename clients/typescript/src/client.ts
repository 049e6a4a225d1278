import { readReceipt, readSettlement, readSettlements } from "./answer.js";
import { FluxGateError } from "./errors.js";
import { Exchange } from "./exchange.js";
import { Queue } from "./queue.js";
import { encodeRequest, encodeSettle } from "./request.js";
import { Reservation, type Reserved, type Work } from "./reservation.js";
import type { Actual, CheckRequest, Decision, Settlement, Settlements } from "./types.js";

/** What decides a request that the server does not decide. */
export type OnFailure = "allow" | "deny" | "throw";

/** The configuration of a client. */
export interface FluxGateOptions {
  /** The address of the server, such as `http://127.0.0.1:8080`. */
  url: string;
  /** The bearer token. The default is none. */
  token?: string;
  /**
   * What happens if the server cannot be reached, does not answer in time or denies access: the
   * request is allowed or denied, with `degraded` in the decision, or `check` throws. There is
   * no default.
   */
  onFailure: OnFailure;
  /** Called for every failure, also of settling and of renewing slots. What it throws is ignored. */
  onError?: (error: FluxGateError) => unknown;
  /** How long a call may take in milliseconds, with the time that a rule holds the request. The default is 500. */
  timeoutMs?: number;
  /** How many checks share a request at most. The default is 64; with 1 each has its own. */
  maxBatch?: number;
  /** How many checks wait in this client at most. The default is 10,000. */
  maxQueue?: number;
  /** The function that sends requests. The default is the global `fetch`. */
  fetch?: typeof fetch;
}

/** The options of a call. */
export interface CallOptions {
  /** Ends the call. The call then throws the reason of the signal, whatever `onFailure` is. */
  signal?: AbortSignal | undefined;
  /** How long this call may take. A rule does not hold the request longer. */
  timeoutMs?: number | undefined;
}

/** FluxGate decides requests by calling a server. */
export class FluxGate {
  readonly #exchange: Exchange;
  readonly #queue: Queue;
  readonly #onFailure: OnFailure;
  readonly #onError: (error: FluxGateError) => unknown;
  readonly #timeoutMs: number;

  constructor(options: FluxGateOptions) {
    const { url, token = "", onFailure, onError, timeoutMs = 500, maxBatch = 64, maxQueue = 10_000, fetch = globalThis.fetch } = options;
    if (!["allow", "deny", "throw"].includes(onFailure)) throw new TypeError('onFailure must be "allow", "deny" or "throw"');
    for (const [name, value] of Object.entries({ timeoutMs, maxBatch, maxQueue })) positive(name, value);
    this.#exchange = new Exchange(url, token, fetch);
    this.#onFailure = onFailure;
    this.#onError = onError ?? (() => undefined);
    this.#timeoutMs = timeoutMs;
    // What a check took whose caller has left is given back.
    this.#queue = new Queue(this.#exchange, maxBatch, maxQueue, (receipt) => { this.settle(receipt, { actual: 0 }).catch(this.#report); });
  }

  /**
   * Decides a request and takes its tokens. Checks at the same time share a request to the
   * server. A check that was sent is never sent again, since it may have taken its tokens,
   * unless the server was busy and has taken none.
   */
  async check(request: CheckRequest, options: CallOptions = {}): Promise<Decision> {
    const { signal } = options;
    signal?.throwIfAborted();
    const text = encodeRequest(request);
    try {
      return await this.#queue.add(text, this.#time(options), signal);
    } catch (error) {
      if (signal?.aborted || !(error instanceof FluxGateError) || error.code === "invalid") throw error;
      this.#report(error);
      if (this.#onFailure === "throw") throw error;
      return { allowed: this.#onFailure === "allow", reason: "store-failure", remaining: 0, degraded: true };
    }
  }

  /** Decides a request and takes nothing. Without `cost` it only reads the state. */
  peek(request: CheckRequest, options?: CallOptions): Promise<Decision> {
    return this.check({ ...request, peek: true }, options);
  }

  /** Reports the actual cost of a request, and releases its slots. A receipt can be settled once. */
  settle(receipt: string, actual: { usage: Actual["usage"] & object }, options?: CallOptions): Promise<Settlements>;
  settle(receipt: string, actual: { actual: number }, options?: CallOptions): Promise<Settlement>;
  settle(receipt: string, actual: Actual, options?: CallOptions): Promise<Settlement | Settlements>;
  async settle(receipt: string, actual: Actual, options: CallOptions = {}): Promise<Settlement | Settlements> {
    const { usage, actual: cost } = actual;
    if ((usage === undefined) === (cost === undefined)) throw new FluxGateError("invalid", "the request is invalid: one of actual and usage is required");
    const answer = await this.#call("/v1/settle", encodeSettle({ receipt, actual: cost, usage }), options);
    return usage === undefined ? readSettlement(answer) : readSettlements(answer);
  }

  /** Renews the slots of a request that goes on. It returns the receipt to use from then on. */
  async extend(receipt: string, options: CallOptions = {}): Promise<string> {
    return readReceipt(await this.#call("/v1/extend", encodeSettle({ receipt }), options));
  }

  /**
   * Decides a request and, if it is allowed, runs `work` and settles what it returns. While
   * `work` runs, the slots that the request holds are renewed. If `work` throws, the request
   * stays charged at its estimate, unless `work` has called `report`, and its slots are released.
   */
  async withReservation<T>(request: CheckRequest, work: Work<T>, options?: CallOptions): Promise<Reserved<T>> {
    const decision = await this.check(request, options);
    if (!decision.allowed) return { allowed: false, decision };
    return this.reserve(decision, request.cost).run(work);
  }

  /** Renews the slots of a decision until the reservation ends. */
  reserve(decision: Decision, cost = 1): Reservation {
    return new Reservation(this, decision, Math.max(1, cost), this.#report);
  }

  #call(path: string, body: string, options: CallOptions): Promise<unknown> {
    return this.#exchange.within(this.#time(options), path, body, options.signal);
  }

  #time({ timeoutMs }: CallOptions): number {
    return timeoutMs === undefined ? this.#timeoutMs : positive("timeoutMs", timeoutMs);
  }

  readonly #report = (error: unknown): void => {
    if (!(error instanceof FluxGateError)) return;
    // Also if it is async: an error that nobody handles ends the process.
    const call = async () => { await this.#onError(error); };
    call().catch(() => undefined);
  };
}

/** A number of at least 1. Timers do not accept more than 2^31. */
function positive(name: string, value: number): number {
  if (!(value >= 1 && value < 2 ** 31)) throw new TypeError(`${name} must be at least 1`);
  return value;
}
