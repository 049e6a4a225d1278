import type { FluxGate } from "./client.js";
import { clientBehind } from "./clientip.js";
import { FluxGateError } from "./errors.js";
import { ceilSeconds, named, policyName, rateLimitHeaders } from "./headers.js";
import type { CheckRequest, Decision } from "./types.js";

/** The parts of a request of Express, node:http or node:http2 that the middleware uses. */
export interface Incoming {
  method?: string | undefined;
  url?: string | undefined;
  originalUrl?: string | undefined;
  headers: { host?: string | undefined; ":authority"?: string | undefined };
  rawHeaders: readonly string[];
  socket: { remoteAddress?: string | undefined };
}

/** The parts of a response that the middleware uses. */
export interface Outgoing {
  statusCode: number;
  closed?: boolean;
  stream?: { closed: boolean } | undefined; // over HTTP/2
  locals?: Record<string, unknown>;
  setHeader: (name: string, value: string) => unknown;
  // eslint-disable-next-line @typescript-eslint/unified-signatures -- node:http2 has no such signature
  end: { (): unknown; (body: string): unknown };
  once: (event: "close", listener: () => void) => unknown;
  off: (event: "close", listener: () => void) => unknown;
}

/** The options of the middleware. */
export interface LimitOptions<R> {
  /**
   * What the service knows about a request: `userId`, `apiKey`, `attributes`, `cost`, `ruleSet`. It replaces what the
   * middleware has found out. What it throws goes to the error handler.
   */
  request?: (req: R) => CheckRequest | Promise<CheckRequest>;
  /**
   * The addresses and networks of your proxies, such as `10.1.0.0/16`. They must append the address of their client to
   * `X-Forwarded-For`. The default is none: the client's address is that of the connection, which no client can forge.
   */
  trustedProxies?: readonly string[];
  /** The client's address, if it is known otherwise. `trustedProxies` do not count then. */
  ip?: (req: R) => string | undefined;
  /** The names of the headers that are sent to the server. The default is all but those with credentials. */
  headers?: readonly string[];
  /** Answers a request that is rejected. The headers and the status are set already. What it throws goes to the error handler. */
  onRejected?: (req: R, res: Outgoing, decision: Decision) => unknown;
  /** How long a decision may take, with the time that a rule holds the request. The default is that of the client. */
  timeoutMs?: number;
}

const chain = "x-forwarded-for";
const credentials = ["authorization", "cookie", "proxy-authorization"];

const statuses: Record<string, [status: number, title: string, detail: string]> = {
  denied: [403, "Forbidden", "A rule rejects this request."],
  "bad-path": [400, "Bad Request", "The path is too long or can be read in more than one way: send it without #, backslash, %2F, dot segments and empty segments."],
  "too-many-rules": [403, "Forbidden", "More rules apply to this request than can be counted."],
  "missing-identity": [403, "Forbidden", "The request has no identity, and a rule requires one."],
  "no-rule": [403, "Forbidden", "No rule allows this request."],
  "no-rule-set": [503, "Service Unavailable", "There is no rule set for this request."],
  "store-failure": [503, "Service Unavailable", "The request cannot be counted now."],
};

/**
 * Middleware that limits requests. It answers a rejected request with 429 (or 403, 400, 503: by the reason), `Retry-After`,
 * the `RateLimit` headers and a problem document. The decision is in `res.locals.fluxgate`. Errors of the client go to
 * the error handler.
 */
export function limit<R extends Incoming = Incoming>(client: FluxGate, options: LimitOptions<R> = {}) {
  const only = options.headers?.map((name) => name.toLowerCase());
  const travels = (name: string) => only?.includes(name) ?? !credentials.includes(name);
  const behind = clientBehind(options.trustedProxies ?? []);

  async function describe(req: R): Promise<CheckRequest> {
    const request: CheckRequest = {
      method: req.method ?? "",
      path: pathOf(req.originalUrl ?? req.url ?? ""),
      host: req.headers[":authority"] ?? req.headers.host ?? "",
      headers: linesOf(req.rawHeaders, travels),
    };
    const ip = options.ip ? options.ip(req) : behind(req.socket.remoteAddress, linesOf(req.rawHeaders, (name) => name === chain)[chain] ?? []);
    if (ip !== undefined) request.ip = ip;
    return { ...request, ...(await options.request?.(req)) };
  }

  return async (req: R, res: Outgoing, next: (error?: unknown) => void): Promise<void> => {
    if (res.closed ?? res.stream?.closed) return; // the client has left before: "close" does not come again
    const gone = new AbortController();
    const leave = () => { gone.abort(); };
    res.once("close", leave); // a client that leaves is not held any longer
    try {
      const request = await describe(req);
      const decision = await client.check(request, { signal: gone.signal, timeoutMs: options.timeoutMs });
      for (const [name, value] of Object.entries(rateLimitHeaders(decision))) res.setHeader(name, value);
      if (!decision.allowed) {
        await reject(decision, req, res);
        return;
      }
      if (res.locals) res.locals["fluxgate"] = decision;
      holdUntilClose(client, decision, request.cost, res);
    } catch (error) {
      if (!gone.signal.aborted) next(error);
      return;
    } finally {
      res.off("close", leave);
    }
    next();
  };

  async function reject(decision: Decision, req: R, res: Outgoing): Promise<void> {
    const problem = problemOf(decision);
    res.statusCode = problem.status;
    res.setHeader("Cache-Control", "no-store");
    if (options.onRejected) {
      await options.onRejected(req, res, decision);
      return;
    }
    res.setHeader("Content-Type", "application/problem+json");
    res.setHeader("X-Content-Type-Options", "nosniff");
    res.end(JSON.stringify(problem));
  }
}

/** The path as it was sent, without the query. Requests for a proxy name the host too, and routers ignore it. */
function pathOf(target: string): string {
  return target.replace(/\?.*/s, "").replace(/^[a-z][\w+.-]*:\/\/[^/]*/i, "");
}

/** The lines of headers by name. Not those of headersDistinct, which requests over HTTP/2 do not have. */
function linesOf(raw: readonly string[], travels: (name: string) => boolean): Record<string, string[]> {
  const lines = new Map<string, string[]>();
  for (let i = 0; i + 1 < raw.length; i += 2) {
    const [name, value] = [raw[i]!.toLowerCase(), textOf(raw[i + 1]!)];
    if (name.startsWith(":") || !travels(name)) continue; // :path and the like are no headers
    lines.set(name, [...(lines.get(name) ?? []), value]);
  }
  const cookie = lines.get("cookie");
  if (cookie) lines.set("cookie", [cookie.join("; ")]); // HTTP/2 may send it in parts
  return Object.fromEntries(lines);
}

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Node makes a character of each byte of a header. Rules read UTF-8, and Latin-1 where a value is not UTF-8. */
function textOf(value: string): string {
  if (!/[^\x00-\x7f]/.test(value)) return value;
  try {
    return utf8.decode(Uint8Array.from(value, (character) => character.charCodeAt(0)));
  } catch {
    return value;
  }
}

/** Renews the slots of a request, and releases them when its response has ended. */
function holdUntilClose(client: FluxGate, decision: Decision, cost: number | undefined, res: Outgoing): void {
  if (!decision.bands?.some((b) => b.kind === "concurrency")) return;
  const reservation = client.reserve(decision, cost);
  res.once("close", () => {
    reservation.end().catch((error: unknown) => {
      // 409: the handler has settled the request itself.
      if (!(error instanceof FluxGateError && error.serverStatus === 409)) reservation.report(error);
    });
  });
}

/** The problem document of a rejection, as in RFC 9457. */
function problemOf(d: Decision) {
  const plain = Object.hasOwn(statuses, d.reason) ? statuses[d.reason] : undefined;
  if (plain) return { title: plain[1], status: plain[0], detail: plain[2], reason: d.reason };
  const exceeds = { type: "https://iana.org/assignments/http-problem-types#quota-exceeded", title: "Request cannot be satisfied as assigned quota has been exceeded", status: 429 };
  if (d.band === undefined) return { ...exceeds, reason: d.reason };
  const binding = policyName(d.rule ?? "", d.band);
  const violated = named(d).filter(([, b]) => (b.status === "rejected" && b.waitMs) || (b.status === "too costly" && (b.cost ?? 1) > b.limit)).map(([name]) => name);
  return { ...exceeds, detail: exceeded(d, binding), reason: d.reason, "violated-policies": [...new Set([binding, ...violated])].slice(0, 8) };
}

function exceeded(d: Decision, binding: string): string {
  const cost = d.bands?.findLast((b) => b.rule === d.rule && !b.shadow)?.cost ?? 1;
  if (d.reason === "cost-too-high") return `The request costs ${cost}, but ${binding} holds at most ${d.limit ?? 0}: it is never allowed.`;
  const state = d.owed ? `owes ${d.owed === 1 ? "1 token" : `${d.owed} tokens`}` : `has ${d.remaining} of ${d.limit ?? 0} left`;
  const seconds = ceilSeconds(d.retryAfterMs ?? 0);
  return `${binding} ${state}, and the request costs ${cost}.${seconds > 0 ? ` Try again in ${seconds}s.` : ""}`;
}
