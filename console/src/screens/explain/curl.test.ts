import { describe, expect, it } from "vitest";
import { parseCurl } from "./curl";
import { words } from "./shell";

describe("words", () => {
  it.each([
    ["curl  a\tb", ["curl", "a", "b"]],
    [`a 'b c' "d e"f`, ["a", "b c", "d ef"]],
    [`'it'\\''s'`, ["it's"]],
    [`"a \\"b\\" \\n $HOME"`, [`a "b" \\n $HOME`]],
    ["a \\\n  b \\\r\n c", ["a", "b", "c"]],
    ["a\\ b", ["a b"]],
    ["''", [""]],
    ["$'a\\'b\\u0021\\x21\\n'", ["a'b!!\n"]],
    ["$(rm -rf /) `id`", ["$(rm", "-rf", "/)", "`id`"]],
  ])("%s", (command, want) => {
    expect(words(command)).toEqual(want);
  });
  it.each(["'a", '"a', "$'a"])("refuses %s, a quote that is not closed", (command) => {
    expect(() => words(command)).toThrow("not closed");
  });
});

const plain = { method: "GET", path: "/", host: "example.com", headers: [], notes: [] };

describe("parseCurl", () => {
  it.each([
    ["a plain URL", "curl https://example.com", plain],
    ["a URL without a scheme, with a port", "curl example.com:8080/a", { ...plain, host: "example.com:8080", path: "/a" }],
    ["a path as it is, without the query", "curl 'http://example.com/a/%2e%2e/b//c?x=1#y'", { ...plain, path: "/a/%2e%2e/b//c" }],
    ["a prompt before the command", "$ curl https://example.com", plain],
    ["a method", "curl -X DELETE example.com", { ...plain, method: "DELETE" }],
    ["a method without a space", "curl -sSLXPUT example.com", { ...plain, method: "PUT" }],
    ["a header", `curl example.com -H 'X-Tenant: acme: one' --header "Accept: */*"`, { ...plain, headers: [["X-Tenant", "acme: one"], ["Accept", "*/*"]] }],
    ["a host header", "curl 127.0.0.1/a -H 'Host: api.example.com'", { ...plain, host: "api.example.com", path: "/a" }],
    ["a user agent", "curl -A bot example.com", { ...plain, headers: [["User-Agent", "bot"]] }],
    ["a body", "curl -d a=b example.com", { ...plain, method: "POST", notes: ["The body was left out: rules do not look at it."] }],
    ["data in the query", "curl -G -d a=b example.com", { ...plain, notes: ["The body was left out: rules do not look at it."] }],
    ["JSON", "curl --json '{}' example.com", { ...plain, method: "POST", headers: [["Content-Type", "application/json"]], notes: ["The body was left out: rules do not look at it."] }],
    ["an upload", "curl -T file example.com/a", { ...plain, method: "PUT", path: "/a" }],
    ["only the head", "curl -I example.com", { ...plain, method: "HEAD" }],
    ["options without effect, with their values", "curl -s -o /dev/null -w '%{http_code}' --max-time 3 --compressed example.com", plain],
    ["--url", "curl --url example.com", plain],
    ["a path to curl", "/usr/bin/curl example.com", plain],
  ])("%s", (_, command, want) => {
    expect(parseCurl(command)).toEqual(want);
  });

  it.each([
    ["an unknown option", "curl --frobnicate example.com", "--frobnicate is not known"],
    ["an unknown short option", "curl -s? example.com", "-? is not known"],
    ["a second URL", "curl example.com example.org", "2 URLs"],
    ["a pipe", "curl example.com | jq .", "What follows | was left out."],
    ["a header that is taken away", "curl example.com -H 'Accept:'", "The header Accept is not sent by curl"],
    ["a header without a colon", "curl example.com -H nonsense", "has no colon"],
  ])("says what it left out: %s", (_, command, want) => {
    expect(parseCurl(command).notes.join("\n")).toContain(want);
  });

  it.each([
    ["-u", "curl -u me:hunter2 example.com"],
    ["-u attached", "curl -ume:hunter2 example.com"],
    ["the URL", "curl https://me:hunter2@example.com"],
    ["Authorization", "curl -H 'authorization: Bearer hunter2' example.com"],
    ["a cookie", "curl -b sid=hunter2 example.com"],
    ["a cookie header", "curl -H 'Cookie: sid=hunter2' example.com"],
  ])("leaves out the secret of %s and says so", (_, command) => {
    const got = parseCurl(command);
    expect(JSON.stringify(got)).not.toContain("hunter2");
    expect(got.notes.join()).toContain("FluxGate needs no credentials here");
    expect(got.host).toBe("example.com");
  });

  it.each([
    ["nothing", "", "must begin with curl"],
    ["another command", "wget example.com", "must begin with curl"],
    ["no URL", "curl -s", "no URL"],
    ["an option without its value", "curl example.com -H", "-H needs a value"],
    ["another scheme", "curl ftp://example.com/a", "not ftp"],
  ])("refuses %s", (_, command, want) => {
    expect(() => parseCurl(command)).toThrow(want);
  });
});
