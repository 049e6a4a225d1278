/**
 * Why there is no answer:
 * - `invalid`: the request cannot be decided because of the request itself, or names a rule set that does not exist. It is never allowed by a failure mode.
 * - `refused`: the server answers with a status other than 200, see `serverStatus`.
 * - `timeout`: no answer in time. A check that was sent may have taken its tokens.
 * - `network`: the server cannot be reached, or the connection broke.
 * - `answer`: the answer is not one of a FluxGate server.
 * - `busy`: too many checks wait in this client, or the server was busy until the time was over. Nothing was taken.
 */
export type ErrorCode = "invalid" | "refused" | "timeout" | "network" | "answer" | "busy";

/** An error of a call. It never contains the address of the server, the token or values of the request. */
export class FluxGateError extends Error {
  override readonly name = "FluxGateError";
  readonly code: ErrorCode;
  /** The HTTP status of the server's answer, if there was one. It is not called `status`, which Express would answer with. */
  readonly serverStatus: number | undefined;
  readonly #receipt: string | undefined; // which is not printed

  constructor(code: ErrorCode, message: string, serverStatus?: number, receipt?: string) {
    super(message);
    this.code = code;
    this.serverStatus = serverStatus;
    this.#receipt = receipt;
  }

  /** The receipt to use from then on, if `extend` has renewed a part of its slots and the others are lost. */
  get receipt(): string | undefined { return this.#receipt; }
}

// Statuses of requests that cannot be decided, or settled, as they are.
const invalid = new Set([400, 413, 422, 500]);

/** What a problem document says, beside its status. */
export interface Problem {
  detail?: unknown;
  receipt?: string;
  reason?: unknown;
}

/** The error of an answer with another status than 200. */
export function refusal(status: number, { detail, receipt, reason }: Problem, busy = false): FluxGateError {
  // Proxies answer 404 too, without the reason.
  const unknownRuleSet = status === 404 && reason === "no-rule-set";
  const text = typeof detail === "string" && detail !== "" ? `: ${printable(detail)}` : "";
  const code = invalid.has(status) || unknownRuleSet ? "invalid" : busy ? "busy" : "refused";
  return new FluxGateError(code, `the server answers ${status}${text}`, status, receipt);
}

/** A text of the server for a log: on one line, and not long. */
function printable(text: string): string {
  return text.slice(0, 400).replace(/[\p{C}\p{Z}]/gu, " ");
}

export const notAnswer = (): FluxGateError => new FluxGateError("answer", "the answer is not one of a FluxGate server");
