import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer as createHTTP, type RequestListener } from "node:http";
import { connect, createServer, type AddressInfo, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { after } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";

/** The program of this tree: see the script "test". */
export const program = resolve("build/fluxgate");
export const conformance = resolve("../conformance");
export const token = "token-of-a-gateway";

export const folder = mkdtempSync(join(tmpdir(), "fluxgate-ts-"));

const children = new Set<ChildProcess>();
process.on("exit", () => { for (const child of children) child.kill("SIGKILL"); });
after(async () => {
  for (const child of children) await end(child);
  rmSync(folder, { recursive: true });
});

export async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, "exit");
  child.kill("SIGKILL");
  await ended;
  children.delete(child);
}

export async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  return port;
}

export async function eventually(what: string, holds: () => boolean | Promise<boolean>): Promise<void> {
  for (const until = Date.now() + 20_000; Date.now() < until; await sleep(10)) if (await holds()) return;
  throw new Error(`not within 20 seconds: ${what}`);
}

const accepts = (port: number): Promise<boolean> =>
  new Promise((done) => {
    const socket = connect(port, "127.0.0.1", () => { socket.destroy(); done(true); });
    socket.on("error", () => { done(false); });
  });

async function start(path: string, args: string[], port: number): Promise<ChildProcess> {
  const child = spawn(path, args, { cwd: folder, stdio: ["ignore", "ignore", "inherit"] });
  children.add(child);
  await eventually(`${path} listens`, () => {
    if (child.exitCode !== null) throw new Error(`${path} ended with ${child.exitCode}`);
    return accepts(port);
  });
  return child;
}

export async function startRedis(): Promise<string> {
  const port = await freePort();
  await start("redis-server", ["--port", String(port), "--bind", "127.0.0.1", "--save", "", "--dir", folder], port);
  return `redis://127.0.0.1:${port}`;
}

export interface Gate {
  url: string;
  process: ChildProcess;
}

/** A server of the conformance cases, or with these rules. */
export async function startGate(redis: string, rules?: string, ruleSet = "conformance"): Promise<Gate> {
  const port = await freePort();
  const file = rules === undefined ? join(conformance, "rules.yaml") : join(folder, `rules-${port}.yaml`);
  if (rules !== undefined) writeFileSync(file, rules);
  const sets = [`rules.file=${file}`, `server.http=127.0.0.1:${port}`, `redis.uri=${redis}`, "log.level=error", `ratelimit.default-rule-set-id=${ruleSet}`];
  const args = ["serve", "--config", join(conformance, "fluxgate.yaml"), ...sets.flatMap((set) => ["--set", set])];
  return { url: `http://127.0.0.1:${port}`, process: await start(program, args, port) };
}

/** The harness of the conformance cases. */
export async function startHarness(): Promise<string> {
  const port = await freePort();
  await start(resolve("build/harness"), [`127.0.0.1:${port}`, join(conformance, "cases.json")], port);
  return `http://127.0.0.1:${port}`;
}

/** A server of node:http until the tests end. */
export async function serve(listener: RequestListener): Promise<string> {
  const server = createHTTP(listener).listen(0, "127.0.0.1");
  after(() => { server.closeAllConnections(); server.close(); });
  await once(server, "listening");
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** A server that answers every connection with these bytes. */
export async function script(bytes: string, then: (socket: Socket) => void = (socket) => { socket.end(); }): Promise<string> {
  const sockets = new Set<Socket>();
  const server: Server = createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => undefined);
    socket.once("data", () => { socket.write(bytes); then(socket); });
  }).listen(0, "127.0.0.1");
  after(() => { for (const socket of sockets) socket.destroy(); server.close(); });
  await once(server, "listening");
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** A proxy that counts requests by path, in front of a server. */
export async function counting(url: string): Promise<{ url: string; counts: Record<string, number>; bodies: string[] }> {
  const counts: Record<string, number> = {};
  const bodies: string[] = [];
  const proxy = await serve((req, res) => {
    const path = req.url ?? "";
    counts[path] = (counts[path] ?? 0) + 1;
    void (async () => {
      let body = "";
      for await (const chunk of req) body += String(chunk);
      bodies.push(body);
      const answer = await fetch(url + path, { method: "POST", body, headers: { authorization: req.headers.authorization ?? "", "content-type": "application/json", accept: req.headers.accept ?? "" } });
      res.writeHead(answer.status, { "content-type": answer.headers.get("content-type") ?? "" });
      for await (const chunk of answer.body ?? []) res.write(chunk);
      res.end();
    })().catch(() => { res.destroy(); });
  });
  return { url: proxy, counts, bodies };
}

export const readJSON = (file: string): unknown => JSON.parse(readFileSync(file, "utf8"));
