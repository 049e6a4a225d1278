import { useQueries, useQuery, useQueryClient, skipToken } from "@tanstack/react-query";
import { useEffect } from "react";
import { api, ApiError, asText, exactly, unwrap, type Schemas } from "../../api/client";
import { isFromMemory } from "../../api/queries";
import { useLive } from "../../api/useLive";
import { useWho } from "../../session";
import type { RuleSet } from "./text";

type Entry = Schemas["Entry"];

// Current is a rule set as it is saved: at revision 0 there is none.
export interface Current {
  revision: number;
  set: RuleSet | undefined;
  // fromMemory is whether it is what the server has in effect, because the source cannot be read.
  fromMemory?: boolean;
}

async function load(ruleSet: string): Promise<Current> {
  try {
    const { data, headers } = await exactly<RuleSet>(api.GET("/v1/rule-sets/{ruleSet}", { ...asText, params: { path: { ruleSet } } }));
    return { revision: Number(headers.get("ETag")?.replaceAll('"', "")), set: data, fromMemory: isFromMemory(headers) };
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return { revision: 0, set: undefined };
    throw error;
  }
}

export function useRuleSet(id: string) {
  return useLive(["rule-set", id], () => load(id), 5000);
}

// useAllRules reads the rules of rule sets. They are read again at another revision
// only, since the admin API has a limit of its own.
export function useAllRules(entries: Entry[]) {
  return useQueries({
    queries: entries.map(({ id, revision }) => ({
      queryKey: ["rules-of", id, revision],
      queryFn: () => load(id),
      staleTime: Infinity,
      refetchInterval: (query: { state: { status: string } }) => (query.state.status === "error" ? 5000 : false),
    })),
  });
}

// useHead is who saved the current revision, and when.
export function useHead(ruleSet: string, revision: number) {
  return useQuery({
    queryKey: ["head", ruleSet, revision],
    queryFn: async () => {
      const page = await unwrap(api.GET("/v1/rule-sets/{ruleSet}/revisions", { params: { path: { ruleSet }, query: { limit: 1 } } }));
      return page.revisions[0] ?? null;
    },
    enabled: revision > 0,
    staleTime: Infinity,
  });
}

// Work is a change that is not saved yet: the text, and what it is based on.
export interface Work {
  base: Current;
  text: string;
  // title says where it comes from, if another screen proposed it.
  title?: string;
}

// useWork keeps the work on a rule set while the page is open, also when another
// screen is shown or the token ends. It is in the cache of the queries, which is
// cleared when the caller signs out.
export function useWork(ruleSet: string): [Work | undefined, (work: Work | undefined) => void] {
  const queries = useQueryClient();
  const key = ["work", ruleSet];
  const { data } = useQuery<Work | null>({ queryKey: key, queryFn: skipToken, gcTime: Infinity, staleTime: Infinity });
  useEffect(() => {
    if (!data) return;
    const ask = (event: BeforeUnloadEvent) => event.preventDefault();
    window.addEventListener("beforeunload", ask);
    return () => window.removeEventListener("beforeunload", ask);
  }, [data]);
  return [data ?? undefined, (work) => queries.setQueryData(key, work ?? null)];
}

// useMayNotWrite says why rules cannot be changed, or is empty if they can.
export function useMayNotWrite(): string {
  const missing = useMissingRole();
  if (useWho().readOnly) return "The rules are in files and cannot be changed here. Edit the files: they are loaded when saved.";
  return missing;
}

// useMissingRole says that the caller does not have the role write, or is empty if it
// has.
export function useMissingRole(): string {
  const who = useWho();
  if (who.roles.includes("write")) return "";
  return `You are ${who.name} with ${rolesOf(who.roles)}. Changing rules and buckets needs the role write.`;
}

function rolesOf(roles: string[]): string {
  return roles.length === 1 ? `the role ${roles[0]!}` : `the roles ${roles.join(", ")}`;
}

export function validate(set: RuleSet): Promise<Schemas["Validation"]> {
  return unwrap(api.POST("/v1/validate", { body: set }));
}
