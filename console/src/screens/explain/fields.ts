import type { Schemas } from "../../api/client";
import type { CurlRequest } from "./curl";

// Fields is a request as it is typed.
export interface Fields {
  ruleSet: string;
  method: string;
  path: string;
  host: string;
  ip: string;
  userId: string;
  apiKey: string;
  cost: string;
  headers: string; // a line for each: Name: value
  attributes: string; // a line for each: name=value
}

export const emptyFields: Fields = { ruleSet: "", method: "GET", path: "/", host: "", ip: "", userId: "", apiKey: "", cost: "", headers: "", attributes: "" };

// Problems are what is wrong with the fields, by their names.
export type Problems = Partial<Record<keyof Fields, string>>;

export function problemsOf(fields: Fields): Problems {
  const found: Problems = {};
  if (!fields.ruleSet.trim()) found.ruleSet = "Name a rule set.";
  if (fields.cost.trim() && !/^\d{1,15}$/.test(fields.cost.trim())) found.cost = "A whole number, at least 0.";
  const header = linesOf(fields.headers).find((line) => !/^[^\s:]+\s*:/.test(line));
  if (header !== undefined) found.headers = `"${header}" is not of the form Name: value.`;
  const attribute = linesOf(fields.attributes).find((line) => !/^[^=]+=/.test(line));
  if (attribute !== undefined) found.attributes = `"${attribute}" is not of the form name=value.`;
  return found;
}

export function requestOf(fields: Fields): Schemas["Request"] {
  const request: Schemas["Request"] = {};
  for (const name of ["method", "path", "host", "ip", "userId", "apiKey"] as const) {
    const value = fields[name].trim();
    if (value) request[name] = value;
  }
  if (fields.cost.trim()) request.cost = Number(fields.cost);
  const headers: Record<string, string[]> = {};
  for (const [name, value] of pairs(fields.headers, ":")) headers[name] = [...(headers[name] ?? []), value];
  if (fields.headers.trim()) request.headers = headers;
  if (fields.attributes.trim()) request.attributes = Object.fromEntries(pairs(fields.attributes, "="));
  return request;
}

function linesOf(text: string): string[] {
  return text.split("\n").filter((line) => line.trim() !== "");
}

function pairs(text: string, mark: string): [string, string][] {
  return linesOf(text).map((line) => {
    const at = line.indexOf(mark);
    return [line.slice(0, at).trim(), line.slice(at + 1).trim()];
  });
}

// withCurl puts what a curl command says into the fields. Who the caller is stays.
export function withCurl(fields: Fields, { method, path, host, headers }: CurlRequest): Fields {
  return { ...fields, method, path, host, headers: headers.map(([name, value]) => `${name}: ${value}`).join("\n") };
}

// exampleOf returns the fields of a request that a rule is for: what its conditions demand, and the caller
// of it if the rule names callers. Of an API key it knows the digest only, and it cannot know whether
// another condition excludes the path.
export function exampleOf(rule: Schemas["RuleDocument"]): Partial<Fields> {
  const method = rule.methods?.[0] ?? rule.method;
  const pattern = rule.paths?.[0] ?? rule.path;
  const segments = pattern?.split("/").filter((part) => part !== "**" && part !== "").map((part) => part.replaceAll("*", "1"));
  const { hosts, users, ips, headers, attributes } = rule.when ?? {};
  return {
    ...(method && { method }),
    ...(segments && { path: "/" + segments.join("/") }),
    ...(hosts?.[0] && { host: hosts[0].replace(/^\*\./, "any.") }),
    ...(users?.[0] && { userId: users[0] }),
    ...(ips?.[0] && { ip: ips[0].replace(/\/.*/, "") }),
    ...(headers && { headers: firstOfEach(headers, ": ") }),
    ...(attributes && { attributes: firstOfEach(attributes, "=") }),
  };
}

// firstOfEach writes a line for each name with its first value. Any value is allowed if that is *.
function firstOfEach(values: Record<string, string[] | null>, mark: string): string {
  return Object.entries(values)
    .map(([name, allowed]) => `${name}${mark}${(allowed?.[0] ?? "*").replace(/^\*$/, "any")}`)
    .join("\n");
}

// questionOf returns a request that a rule is for. What is given, such as its caller, comes before the conditions
// of the rule.
export function questionOf(fields: Fields, given: Partial<Fields>, rule: Schemas["RuleDocument"]): Fields {
  return { ...fields, ...exampleOf(rule), ...given };
}
