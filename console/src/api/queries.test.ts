import { beforeAll, expect, it, vi } from "vitest";
import type { healthOf as HealthOf } from "./queries";

let healthOf: typeof HealthOf;

beforeAll(async () => {
  vi.stubGlobal("window", { location: { origin: "http://127.0.0.1" } });
  ({ healthOf } = await import("./queries"));
});

it("reads the health of a server that is down from its 503", async () => {
  const error = { status: "down", store: { kind: "redis" }, rules: { sets: [] } };
  expect(await healthOf({ error, response: new Response(null, { status: 503 }) })).toBe(error);
  await expect(healthOf({ error: { status: 503, title: "Service Unavailable" }, response: new Response(null, { status: 503 }) })).rejects.toThrow("Service Unavailable");
});
