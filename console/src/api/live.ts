import type { components } from "./schema";

type Schemas = components["schemas"];

export type Rates = Schemas["Rates"];
export type Live = Schemas["Live"];
export type Fleet = Schemas["Fleet"];
export type FleetServer = Schemas["Server"];
export type Callers = Schemas["Callers"];
export type Caller = Schemas["Caller"];

// Health is what /v1/health answers. It is not in the OpenAPI document, because the
// metrics listener serves it too.
export interface Health {
  status: "up" | "degraded" | "down";
  version?: string;
  draining?: boolean;
  store: {
    kind: "redis" | "memory";
    status: string;
    mode?: string;
    nodes?: { addr: string; version?: string; role?: string; latencyMs?: number; error?: string; since?: string; breakerOpen?: boolean }[];
    warnings?: string[];
    error?: string;
    since?: string;
  };
  rules: {
    kind: string;
    status: string;
    count: number;
    failing?: number; // also of those that are not in sets
    sets: { id: string; revision: number; rules: number; source: string; checkedAt?: string; ageSeconds?: number; error?: string }[] | null;
    error?: string;
  };
  auditError?: string;
  warnings?: string[];
}

export interface HealthPath {
  "/v1/health": {
    get: {
      parameters: { query?: never; header?: never; path?: never; cookie?: never };
      responses: { 200: { headers: Record<string, unknown>; content: { "application/json": Health } } };
    };
  };
}
