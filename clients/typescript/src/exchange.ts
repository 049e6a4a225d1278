import { parse, readProblem } from "./answer.js";
import { FluxGateError, refusal, type Problem } from "./errors.js";

/** The longest answer in characters, or line of one. 64 rules of 16 bands are shorter. */
const maxAnswer = 1 << 20;

/** The longest problem document in characters, but for one with a receipt. */
const maxProblem = 4 << 10;

/** About how long the client waits before it asks a busy server again, in milliseconds. Each further pause is twice as long. */
const firstPause = 20;

/** How long to wait before a check is sent again, which then has as much time. Undefined if the error or the time does not allow it. */
export function pauseAfter(error: unknown, tries: number, until: number): number | undefined {
  if (!(error instanceof FluxGateError) || error.code !== "busy") return undefined;
  const pause = firstPause * 2 ** tries * (0.5 + Math.random());
  return performance.now() + 2 * pause < until ? pause : undefined;
}

/** Exchange sends requests to the server. Only those that a busy server has refused are sent again. */
export class Exchange {
  // Private names: printing a client shows neither the address nor the token.
  readonly #base: string;
  readonly #token: string;
  readonly #fetch: typeof fetch;

  constructor(url: string, token: string, send: typeof fetch) {
    this.#base = endpoint(url);
    if (!/^[!-~]*$/.test(token)) throw new TypeError("the token has characters that are not allowed in a bearer token");
    this.#token = token;
    this.#fetch = send;
  }

  /** Sends a body. Any answer but 200 is an error. */
  async post(path: string, body: string, signal: AbortSignal, accept = "application/json"): Promise<Response> {
    const headers: Record<string, string> = { "Content-Type": "application/json", Accept: accept };
    if (this.#token !== "") headers["Authorization"] = `Bearer ${this.#token}`;
    const send = this.#fetch; // called without this, as browsers require
    let response: Response;
    try {
      // Redirects are not followed: a request is for this server only. "error" would do
      // the same, but Cloudflare Workers do not know it.
      response = await send(this.#base + path, { method: "POST", headers, body, signal, redirect: "manual" });
    } catch (error) {
      throw broken(error, signal);
    }
    if (response.status === 200) return response;
    const problem = response.headers.get("Content-Type")?.startsWith("application/problem+json");
    const most = response.status === 409 ? maxAnswer : maxProblem;
    const read = readProblem(problem ? await text(response, signal, most).catch(() => "") : "");
    if (!problem) response.body?.cancel().catch(() => undefined);
    // A server that is busy has taken nothing.
    const busy = problem && response.status === 503 && response.headers.has("Retry-After");
    throw this.refusal(response.status, read, busy);
  }

  /** The error of an answer with another status than 200, without the token. */
  readonly refusal = (status: number, problem: Problem, busy?: boolean): FluxGateError => {
    const { detail } = problem;
    const safe = typeof detail === "string" && this.#token !== "" ? { ...problem, detail: detail.replaceAll(this.#token, "…") } : problem;
    return refusal(status, safe, busy);
  };

  /** Sends a body and reads the JSON of the answer. */
  async json(path: string, body: string, signal: AbortSignal): Promise<unknown> {
    return parse(await text(await this.post(path, body, signal), signal, maxAnswer));
  }

  /** Like json, for at most so long. */
  async within(timeoutMs: number, path: string, body: string, caller: AbortSignal | undefined): Promise<unknown> {
    caller?.throwIfAborted();
    const controller = new AbortController();
    const timer = setTimeout(() => { controller.abort(timedOut()); }, timeoutMs);
    const leave = () => { controller.abort(caller?.reason); };
    caller?.addEventListener("abort", leave);
    const { signal } = controller;
    const until = performance.now() + timeoutMs;
    try {
      for (let tries = 0; ; tries++) {
        try {
          return await this.json(path, body, signal);
        } catch (error) {
          const pause = pauseAfter(error, tries, until);
          if (pause === undefined || signal.aborted) throw error;
          await new Promise((resume) => { setTimeout(resume, pause); signal.addEventListener("abort", resume); });
        }
      }
    } finally {
      clearTimeout(timer);
      caller?.removeEventListener("abort", leave);
    }
  }
}

export const timedOut = (): FluxGateError => new FluxGateError("timeout", "no answer in time");

/** The address without a slash at its end. Errors do not contain it: it may have a password. */
function endpoint(address: string): string {
  let url: URL;
  try {
    url = new URL(address);
  } catch {
    throw new TypeError("the server's address must be http://host:port or https://host:port");
  }
  if (url.protocol !== "http:" && url.protocol !== "https:") throw new TypeError("the server's address must begin with http:// or https://");
  if (url.username !== "" || url.password !== "") throw new TypeError("the server's address must not have a user: use a token");
  if (url.search !== "" || url.hash !== "") throw new TypeError("the server's address must not have a query");
  return url.origin + url.pathname.replace(/\/+$/, "");
}

/** The error of a connection, without the address that it mostly names. */
function broken(error: unknown, signal: AbortSignal): unknown {
  if (signal.aborted) return signal.reason;
  const cause = (error as { cause?: { code?: unknown } } | null)?.cause?.code;
  const code = typeof cause === "string" && /^[A-Z_]{2,40}$/.test(cause) ? `: ${cause}` : "";
  return new FluxGateError("network", `the server cannot be reached${code}`);
}

/** The chunks of an answer as they arrive. */
async function* chunks(response: Response, signal: AbortSignal): AsyncGenerator<string, void> {
  if (response.body === null) return;
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      yield decoder.decode(value, { stream: !done });
      if (done) return;
    }
  } catch (error) {
    throw broken(error, signal);
  } finally {
    reader.cancel().catch(() => undefined); // of an answer that is too long
  }
}

async function text(response: Response, signal: AbortSignal, most: number): Promise<string> {
  let all = "";
  for await (const chunk of chunks(response, signal)) all = bounded(all + chunk, most);
  return all;
}

/** The lines of an answer as they arrive. */
export async function* lines(response: Response, signal: AbortSignal): AsyncGenerator<string, void> {
  let rest = "";
  for await (const chunk of chunks(response, signal)) {
    let start = 0;
    for (let end = chunk.indexOf("\n"); end >= 0; end = chunk.indexOf("\n", start)) {
      yield bounded(rest + chunk.slice(start, end), maxAnswer);
      [rest, start] = ["", end + 1];
    }
    rest = bounded(rest + chunk.slice(start), maxAnswer);
  }
  if (rest !== "") yield rest;
}

function bounded(value: string, most: number): string {
  if (value.length > most) throw new FluxGateError("answer", `the answer is longer than ${most} characters`);
  return value;
}
