import { spawn, type ChildProcess } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test as base } from "@playwright/test";

// The tokens of the tests by their roles.
export const tokens = { reader: "token-of-a-reader", operator: "token-of-an-operator", gateway: "token-of-a-gateway" };

export type Token = keyof typeof tokens;

const roles: Record<Token, string> = { reader: "read", operator: "write, identities", gateway: "check" };

export const ruleSet = {
  id: "api-limits",
  rules: [
    { id: "per-user", path: "/api/**", limitScope: "USER_ID", bands: [{ label: "burst", capacity: 5, refill: "1s" }] },
    { id: "per-address", path: "/api/**", limitScope: "IP", mode: "shadow", bands: [{ label: "second", capacity: 8, refill: "1s" }] },
    { id: "health", path: "/health", action: "allow", priority: 100 },
  ],
};

// attacker is the user that is limited most. The id is text that a page must not run.
export const attacker = `<img src=x onerror="document.title='run'">`;

// Fleet is FluxGate servers with buckets in Redis and rules in MongoDB.
export class Fleet {
  readonly folder = mkdtempSync(join(tmpdir(), "fluxgate-e2e-"));
  readonly servers: Server[] = [];
  redis!: ChildProcess;
  redisPort = 0;
  private mongoPort = 0;
  private readonly children: ChildProcess[] = [];
  private stopLoad = () => {};

  async start(size: number, rules?: string): Promise<void> {
    this.redisPort = await freePort();
    this.redis = spawn("redis-server", ["--port", String(this.redisPort), "--bind", "127.0.0.1", "--save", "", "--dir", this.folder], { stdio: "ignore" });
    this.mongoPort = await freePort();
    const mongo = join(this.folder, "mongo");
    mkdirSync(mongo);
    this.children.push(spawn(process.env.MONGO!, [`127.0.0.1:${this.mongoPort}`, mongo], { stdio: "ignore" }));
    this.accept("reader", "operator", "gateway");
    for (let i = 0; i < size; i++) this.servers.push(await this.startServer(rules));
    await Promise.all(this.servers.map((s) => s.ready()));
    const created = await this.servers[0]!.call("PUT", "/v1/rule-sets/api-limits", ruleSet, { "If-None-Match": "*" });
    if (!created.ok) throw new Error(await created.text());
  }

  // accept makes the servers accept these tokens only.
  accept(...names: Token[]): void {
    const lines = names.map((name) => `  - {name: ${name}, sha256: ${hash(tokens[name])}, roles: [${roles[name]}]}\n`);
    writeFileSync(join(this.folder, "tokens.yaml"), "tokens:\n" + lines.join(""));
    for (const server of this.servers) server.process.kill("SIGHUP");
  }

  // startServer starts a server, which is in the fleet if it has the same rules.
  async startServer(rules = "{source: mongo}"): Promise<Server> {
    const [http, admin] = [await freePort(), await freePort()];
    const config = join(this.folder, `server-${admin}.yaml`);
    writeFileSync(
      config,
      `fluxgate:
  redis: {uri: "redis://127.0.0.1:${this.redisPort}", timeout: 1s}
  mongo: {uri: "mongodb://127.0.0.1:${this.mongoPort}", database: fluxgate}
  rules: ${rules}
  server: {http: "127.0.0.1:${http}", grpc: "", admin: "127.0.0.1:${admin}", auth: {tokens-file: "${join(this.folder, "tokens.yaml")}"}}
`,
    );
    const child = spawn(process.env.FLUXGATE!, ["serve", "--config", config], { stdio: ["ignore", "ignore", "inherit"] });
    this.children.push(child);
    return new Server(child, `http://127.0.0.1:${http}`, `http://127.0.0.1:${admin}`);
  }

  // load sends requests of callers, one of them far above the limit, until stop.
  load(busiest = attacker): void {
    this.stopLoad();
    const timer = setInterval(() => {
      const server = this.servers[Math.floor(Math.random() * this.servers.length)]!;
      const user = Math.random() < 0.6 ? busiest : "user-" + Math.floor(Math.random() * 20);
      void server.check({ ruleSet: "api-limits", userId: user, ip: "192.0.2.7", method: "GET", path: "/api/orders" }).catch(() => {});
    }, 20);
    this.stopLoad = () => clearInterval(timer);
  }

  async stop(): Promise<void> {
    this.stopLoad();
    for (const process of [...this.children, this.redis]) {
      if (process.exitCode !== null || process.signalCode !== null) continue;
      const ended = once(process, "exit");
      process.kill("SIGKILL");
      await ended;
    }
    rmSync(this.folder, { recursive: true });
  }
}

class Server {
  readonly process: ChildProcess;
  readonly http: string;
  readonly admin: string;

  constructor(process: ChildProcess, http: string, admin: string) {
    this.process = process;
    this.http = http;
    this.admin = admin;
  }

  async ready(): Promise<void> {
    for (let tries = 0; tries < 200; tries++) {
      // It is alive before it has connected; until then other answers are 503.
      const answer = await this.call("GET", "/v1/whoami").catch(() => undefined);
      if (answer?.ok) return;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    throw new Error(`${this.admin} does not answer`);
  }

  call(method: string, path: string, body?: unknown, headers: Record<string, string> = {}): Promise<Response> {
    return fetch(this.admin + path, {
      method,
      headers: { Authorization: "Bearer " + tokens.operator, "Content-Type": "application/json", ...headers },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  }

  check(request: unknown): Promise<Response> {
    return fetch(this.http + "/v1/check", {
      method: "POST",
      headers: { Authorization: "Bearer " + tokens.gateway, "Content-Type": "application/json" },
      body: JSON.stringify(request),
    });
  }
}

function hash(token: string): string {
  return createHash("sha256").update(token).digest("hex");
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  return port;
}

function withRules(rules?: string) {
  return base.extend<object, { fleet: Fleet }>({
    fleet: [
      async ({}, use) => {
        const fleet = new Fleet();
        try {
          await fleet.start(2, rules);
          fleet.load();
          await use(fleet);
        } finally {
          await fleet.stop();
        }
      },
      { scope: "worker", timeout: 60_000 },
    ],
  });
}

// test has one fleet of two servers under load for all tests of a file.
export const test = withRules();

// testRedis has its rules in Redis, where overrides are.
export const testRedis = withRules("{source: redis}");
