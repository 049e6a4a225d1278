import { describe, expect, it } from "vitest";
import { parseCurl } from "./curl";
import { emptyFields, exampleOf, problemsOf, questionOf, requestOf, withCurl } from "./fields";

const fields = { ...emptyFields, ruleSet: "api-limits" };

describe("requestOf", () => {
  it("leaves out what is empty", () => {
    expect(requestOf({ ...fields, userId: " alice " })).toEqual({ method: "GET", path: "/", userId: "alice" });
  });
  it("reads headers and attributes", () => {
    const typed = { ...fields, headers: "X-A: 1\n\nX-A: 2: 3\n", attributes: "tier=premium\nnote=a=b", cost: "0" };
    expect(requestOf(typed)).toEqual({ method: "GET", path: "/", cost: 0, headers: { "X-A": ["1", "2: 3"] }, attributes: { tier: "premium", note: "a=b" } });
  });
});

describe("problemsOf", () => {
  it("has none for a request", () => {
    expect(problemsOf(fields)).toEqual({});
  });
  it.each([
    ["ruleSet", { ruleSet: " " }],
    ["cost", { cost: "-1" }],
    ["cost", { cost: "1.5" }],
    ["headers", { headers: "X-A: 1\nnonsense" }],
    ["attributes", { attributes: "=a" }],
  ])("says what is wrong with %s", (name, wrong) => {
    expect(Object.keys(problemsOf({ ...fields, ...wrong }))).toEqual([name]);
  });
});

describe("withCurl", () => {
  it("keeps the caller and replaces the rest", () => {
    const got = withCurl({ ...fields, userId: "alice", headers: "X-Old: 1" }, parseCurl("curl -X PUT -H 'X-New: 2' https://example.com/a"));
    expect(got).toEqual({ ...fields, userId: "alice", method: "PUT", path: "/a", host: "example.com", headers: "X-New: 2" });
  });
});

describe("exampleOf", () => {
  it.each([
    [{ path: "/api/**" }, { path: "/api" }],
    [{ path: "/api/*/items/**", method: "PUT" }, { path: "/api/1/items", method: "PUT" }],
    [{ paths: ["/a", "/b"], methods: ["POST", "GET"] }, { path: "/a", method: "POST" }],
    [{ path: "/**" }, { path: "/" }],
    [{}, {}],
    [{ when: { hosts: ["*.example.com"], headers: { "X-Tenant": ["acme", "b"], "X-Any": ["*"] }, attributes: { tier: ["premium"] } } }, { host: "any.example.com", headers: "X-Tenant: acme\nX-Any: any", attributes: "tier=premium" }],
    [{ when: { users: ["ada"], ips: ["10.0.0.0/8"] } }, { userId: "ada", ip: "10.0.0.0" }],
  ])("%o", (rule, want) => {
    expect(exampleOf({ id: "r", ...rule })).toEqual(want);
  });
});

describe("questionOf", () => {
  it("keeps the caller that is named, and fills in what the rule demands", () => {
    const rule = { id: "r", path: "/llm/**", method: "POST", when: { users: ["ada"], attributes: { plan: ["free"] } } };
    const got = questionOf({ ...fields, userId: "bob" }, { userId: "bob" }, rule);
    expect(got).toEqual({ ...fields, userId: "bob", method: "POST", path: "/llm", attributes: "plan=free" });
    expect(questionOf({ ...fields, path: "/llm/7" }, { path: "/llm/7" }, rule)).toMatchObject({ path: "/llm/7", method: "POST", attributes: "plan=free" });
  });
});
