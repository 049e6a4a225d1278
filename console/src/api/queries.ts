import { useQuery } from "@tanstack/react-query";
import { api, unwrap } from "./client";
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
  return useLive(["health"], () => unwrap(api.GET("/v1/health")), 5000);
}

export function useRuleSets() {
  return useQuery({ queryKey: ["rule-sets"], queryFn: () => unwrap(api.GET("/v1/rule-sets", { params: { query: { limit: 1000 } } })) });
}
