import { expect, it } from "vitest";
import type { Fleet, Health } from "./api/live";
import { findings } from "./health";

const now = Date.parse("2026-01-01T00:01:00Z");
const rates = { allowed: 1, limited: 0, denied: 0, degraded: 0, waiting: 0, shadow: 0 };

function server(name: string, more: Partial<Fleet["servers"][number]> = {}): Fleet["servers"][number] {
  return { id: name, name, version: "1.0", self: false, startedAt: "", reportedAt: "", draining: false, revisions: { api: 1 }, rates, redis: [], understands: [], ...more };
}

function fleet(more: Partial<Fleet> = {}): Fleet {
  return { servers: [server("a"), server("b")], total: rates, differing: [], lost: [], ...more };
}

const open = { redis: [{ node: "r:6379", open: true, since: "2026-01-01T00:00:48Z" }] };

it("finds nothing in a healthy fleet", () => {
  expect(findings({ fleet: fleet() }, now)).toEqual([]);
});

it("says which Redis node does not answer, to whom, for how long and what follows", () => {
  expect(findings({ fleet: fleet({ servers: [server("a", open), server("b", open)] }) }, now)[0]?.text).toBe(
    "Redis node r:6379 does not answer for 12 s: rules decide by onFailure.",
  );
  expect(findings({ fleet: fleet({ servers: [server("a", open), server("b")] }) }, now)[0]?.text).toBe(
    "Redis node r:6379 does not answer to a for 12 s: rules decide by onFailure.",
  );
});

it("says once that Redis does not answer", () => {
  const health = { store: { error: "the call was not sent" }, rules: {} } as Health;
  const texts = (self: boolean) => findings({ fleet: fleet({ servers: [server("a", { ...open, self }), server("b")] }), health }, now).map((f) => f.text);
  expect(texts(true)).toEqual(["Redis node r:6379 does not answer to a for 12 s: rules decide by onFailure."]);
  expect(texts(false)).toContain("Redis: the call was not sent"); // the other server has a problem of its own
});

it("says which rule set differs", () => {
  expect(findings({ fleet: fleet({ differing: [{ ruleSet: "api", revisions: [12, 275265679929313] }] }) }, now)[0]?.text).toBe(
    "2 servers have different revisions of api: 12, fa5a4912.",
  );
});

it("lists problems before notices, and those of the server that answers", () => {
  const health: Health = {
    status: "degraded",
    store: { kind: "redis", status: "up", warnings: ["maxmemory-policy is allkeys-lru"] },
    rules: { kind: "mongo", status: "degraded", count: 1, sets: [{ id: "api", revision: 3, rules: 1, source: "copy", error: "cannot load." }] },
    auditError: "disk full",
  };
  expect(findings({ fleet: fleet({ servers: [server("a", { draining: true }), server("b", { version: "1.1" })] }), health }, now)).toEqual([
    { level: "problem", text: "Rule set api: cannot load. Still serving revision 3." },
    { level: "problem", text: "Changes are rejected while the audit cannot be written: disk full" },
    { level: "notice", text: "Server a is shutting down." },
    { level: "notice", text: "Servers have different versions: 1.0, 1.1." },
    { level: "notice", text: "Redis: maxmemory-policy is allkeys-lru" },
  ]);
});

it("says once what several rule sets have in common", () => {
  const set = (id: string, error?: string) => ({ id, revision: 3, rules: 1, source: "source", error });
  const texts = (sets: Health["rules"]["sets"], failing = sets!.filter((s) => s.error).length) =>
    findings({ fleet: fleet(), health: { store: {}, rules: { kind: "redis", status: "degraded", count: 9, failing, sets } } as Health }, now).map((f) => f.text);
  expect(texts([set("a", "no answer"), set("b", "no answer"), set("c", "rules[0] is invalid"), set("d")])).toEqual([
    "Rule sets a, b: no answer. Still serving their last revisions.",
    "Rule set c: rules[0] is invalid. Still serving revision 3.",
  ]);
  expect(texts(["a", "b", "c", "d", "e"].map((id) => set(id, "no answer")), 9)).toEqual([
    "Rule sets a, b, c and 2 more: no answer. Still serving their last revisions.",
    "4 more rule sets have a problem.",
  ]);
});

it("says once what several servers have in common", () => {
  const error = "reading the revisions of 2 rule sets: connection refused";
  const servers = [server("a", { self: true, status: "degraded" }), server("b", { status: "degraded", reason: "rule set api: reading the revisions of 2 ru…" }), server("c", { status: "degraded", reason: "rule set other: the disk is fu…" })];
  const health = { status: "degraded", store: {}, rules: { sets: [{ id: "api", revision: 3, rules: 1, source: "source", error }] } } as Health;
  expect(findings({ fleet: fleet({ servers }), health }, now).map((f) => f.text)).toEqual([
    `Rule set api: ${error}. Still serving revision 3.`,
    "Server b is degraded.",
    "Server c is degraded: rule set other: the disk is fu…",
  ]);
});

it("begins warnings with a capital letter", () => {
  const health = { store: {}, rules: {}, warnings: ["announcements of changes cannot be received", "rules.copies: is full", "3 settlements wait"] } as Health;
  expect(findings({ fleet: fleet(), health }, now).map((f) => f.text)).toEqual(["Announcements of changes cannot be received", "rules.copies: is full", "3 settlements wait"]);
});

const down: Health = { status: "down", store: { kind: "redis", status: "up" }, rules: { kind: "redis", status: "down", count: 0, sets: [], error: "the source has no rule set api" } };

it("is not healthy while a server is down", () => {
  const reason = "the source has no rule set api";
  const self = server("a", { self: true, status: "down", reason });
  const texts = (more: object) => findings({ fleet: fleet({ servers: [self, server("b", { status: "down", reason })] }), ...more }, now).map((f) => f.text);
  expect(texts({})).toEqual(["Servers a, b are down: the source has no rule set api."]);
  expect(texts({ health: down })).toEqual(["Rules: the source has no rule set api", "Servers a, b are down."]);
  expect(findings({ fleet: fleet({ servers: [server("a", { status: "degraded" }), server("b", { status: "up" })] }) }, now)).toEqual([{ level: "problem", text: "Server a is degraded." }]);
});

it("is not healthy while health cannot be read", () => {
  expect(findings({ fleet: fleet(), failures: ["The server does not answer.", "The server does not answer."] }, now)).toEqual([
    { level: "problem", text: "The health of this server cannot be read: The server does not answer." },
  ]);
});

it("names lost servers, and compares nothing with them", () => {
  const lost = (name: string) => ({ id: "id-" + name, name, version: "0.9", lostAt: "2026-01-01T00:00:48Z", shownUntil: "2026-01-01T00:15:48Z" });
  const again = server("c", { startedAt: "2026-01-01T00:00:45Z" });
  expect(findings({ fleet: fleet({ servers: [server("a"), server("b", { startedAt: "2025-12-31T00:00:00Z" }), again], lost: [lost("b"), lost("c")] }) }, now).map((f) => f.text)).toEqual([
    "Server b (id-b) was lost 12 s ago: it was killed, or cannot reach Redis.",
    "Server c (id-c) was lost 12 s ago and has started again.",
  ]);
});
