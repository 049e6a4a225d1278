import { useQuery } from "@tanstack/react-query";
import { api, unwrap, withHeaders } from "./client";
import type { Health } from "./live";
import { useLive } from "./useLive";

// The questions that more than one screen asks. Screens that ask the same share the
// answer.

export function useNumbers(limit = 100) {
  return useLive(["live", limit], () => unwrap(api.GET("/v1/live", { params: { query: { limit } } })));
}

export function useFleet() {
  return useLive(["fleet"], () => unwrap(api.GET("/v1/fleet")));
}

export interface CallerFilter {
  outcome: "limited" | "allowed";
  ruleSet?: string;
  rule?: string;
  limit?: number;
}

export function useCallers(query: CallerFilter) {
  return useLive(["callers", query], () => unwrap(api.GET("/v1/callers", { params: { query } })));
}

// useHealth is the health of the server that answers. Callers that may not read all
// rule sets get an error.
export function useHealth() {
  return useLive(["health"], async () => healthOf(await api.GET("/v1/health")), 5000);
}

// healthOf returns the health in an answer. A server that is down answers 503, with its health.
export async function healthOf(answer: { data?: Health; error?: unknown; response: Response }): Promise<Health> {
  const { error, response } = answer;
  if (response.status === 503 && typeof error === "object" && error !== null && "store" in error && "rules" in error) return error as Health;
  return unwrap(Promise.resolve(answer));
}

// isFromMemory is whether an answer has the rules in effect on the server, because the rule source cannot be read.
export function isFromMemory(headers: Headers): boolean {
  return headers.get("X-Fluxgate-From") === "memory";
}

export function useRuleSets() {
  return useQuery(ruleSets);
}

// ruleSets is the list of rule sets.
export const ruleSets = {
  queryKey: ["rule-sets"],
  queryFn: async () => {
    const { data, headers } = await withHeaders(api.GET("/v1/rule-sets", { params: { query: { limit: 1000 } } }));
    return { ...data, fromMemory: isFromMemory(headers) };
  },
};
