import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { describe, it } from "node:test";
import { gzipSync } from "node:zlib";
import { folder, readJSON, startGate, startRedis, token } from "./servers.js";

const readme = readFileSync("README.md", "utf8");

/** The blocks of the README in this language, and what follows each. */
function blocks(language: string): { code: string; next: string | undefined }[] {
  const all = [...readme.matchAll(/^```(\w*)\n([^]*?)^```$/gm)].map(([, name, code]) => ({ name: name!, code: code! }));
  return all.flatMap(({ name, code }, i) => (name === language ? [{ code, next: all[i + 1]?.name === "text" ? all[i + 1]!.code : undefined }] : []));
}

function run(program: string, args: string[], cwd: string, env: Record<string, string> = {}): string {
  return execFileSync(program, args, { cwd, env: { ...process.env, ...env }, encoding: "utf8", timeout: 60_000 });
}

describe("the package", () => {
  it("has no dependencies and only its files, of at most 10 kB compressed", () => {
    const manifest = readJSON("package.json") as Record<string, unknown>;
    assert.equal(manifest["dependencies"], undefined);
    assert.equal(manifest["peerDependencies"], undefined);
    const scripts = readdirSync("dist").filter((name) => name.endsWith(".js"));
    const sizes = scripts.map((name) => gzipSync(readFileSync(join("dist", name))).length);
    assert.ok(sizes.length > 0 && sizes.reduce((a, b) => a + b) <= 10_000, `${scripts.join()}: ${sizes.join()} bytes`);
    const [packed] = JSON.parse(run("npm", ["pack", "--dry-run", "--json", "--ignore-scripts"], ".")) as [{ files: { path: string }[] }];
    assert.deepEqual(packed.files.map((f) => f.path).filter((path) => !/^dist\/\w+\.(js|d\.ts)$/.test(path)), ["LICENSE", "README.md", "package.json"]);
  });

  it("works in an empty project, with the examples of its README", async () => {
    const project = join(folder, "project");
    mkdirSync(project);
    const [packed] = JSON.parse(run("npm", ["pack", "--json", "--ignore-scripts", "--pack-destination", folder], ".")) as [{ filename: string }];
    writeFileSync(join(project, "package.json"), '{"name":"project","private":true,"type":"commonjs"}');
    run("npm", ["install", "--offline", "--no-audit", "--no-fund", "--ignore-scripts", join(folder, packed.filename)], project);
    assert.deepEqual(readdirSync(join(project, "node_modules")).filter((name) => !name.startsWith(".")), ["@fluxgate"]);
    symlinkSync(resolve("node_modules/express"), join(project, "node_modules/express"));

    const rules = blocks("yaml")[0]!.code;
    const gate = await startGate(await startRedis(), rules, "api-limits");
    const examples = blocks("js");
    assert.equal(examples.length, 3);
    for (const [i, { code, next }] of examples.entries()) {
      const file = join(project, `example-${i}.mjs`);
      writeFileSync(file, code.replace("onFailure:", "timeoutMs: 20_000, onFailure:")); // a busy machine is no failure of the server
      const printed = run(process.execPath, [file], project, { FLUXGATE_URL: gate.url, FLUXGATE_TOKEN: token });
      assert.equal(printed.replace(/ 179\d$/gm, " 1800"), next); // Retry-After, some seconds later
    }
    // Express routes this to /api/orders too.
    const spelled = await fetch(`${gate.url}/v1/check`, { method: "POST", headers: { Authorization: `Bearer ${token}`, "Content-Type": "application/json" }, body: '{"userId":"bob","path":"/API/Orders"}' });
    assert.equal(((await spelled.json()) as { reason: string }).reason, "limited");
  });

  it("has types that work for a strict project", () => {
    const project = join(folder, "project");
    writeFileSync(
      join(project, "typed.mts"),
      `import { FluxGate, FluxGateError, type Decision } from "@fluxgate/client";
import { limit } from "@fluxgate/client/express";
const gate = new FluxGate({ url: "http://127.0.0.1:1", onFailure: "deny" });
export const decision: Promise<Decision> = gate.check({ userId: "a", headers: { "X-A": ["b"] } });
export const given: Promise<number> = gate.settle("r", { actual: 1 }).then((s) => s.returned);
export const measured: Promise<number | undefined> = gate.settle("r", { usage: {} }).then((s) => s.measures["usd"]?.charged);
export const code = new FluxGateError("busy", "x").code;
export const middleware = limit(gate);
// @ts-expect-error: a failure mode must be chosen
new FluxGate({ url: "http://127.0.0.1:1" });
// @ts-expect-error: an unknown field
void gate.check({ user: "a" });
// @ts-expect-error: one of actual and usage
void gate.settle("r", {});
`,
    );
    const [, documented] = /^```ts\n([^]*?)^```$/m.exec(readFileSync("../../docs/clients.md", "utf8"))!;
    writeFileSync(join(project, "documented.mts"), `declare const token: string;\n${documented!}\nexport { decision };\n`);
    run(resolve("node_modules/.bin/tsc"), ["--noEmit", "--strict", "--exactOptionalPropertyTypes", "--module", "nodenext", "--target", "es2022", "--lib", "es2022,dom", "typed.mts", "documented.mts"], project);
  });
});
