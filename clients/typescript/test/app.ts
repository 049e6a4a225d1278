import { once } from "node:events";
import { createServer as createHTTP, type Server } from "node:http";
import { createServer as createHTTP2 } from "node:http2";
import type { AddressInfo } from "node:net";
import { after } from "node:test";
import express, { type NextFunction, type Request, type Response } from "express";
import type { FluxGate } from "@fluxgate/client";
import { limit, type Incoming } from "@fluxgate/client/express";

/** The options of the app of a conformance case. */
export interface AppOptions {
  http?: number;
  trustedProxies?: string[];
  headers?: string[];
}

type Plain = Incoming & { headers: Record<string, string | string[] | undefined> };

const text = (req: Plain, name: string) => String(req.headers[name] ?? "");

/** An app behind the middleware: of Express, or of node:http2. */
export async function startApp(client: FluxGate, { http = 1, ...options }: AppOptions): Promise<string> {
  const middleware = limit<Plain>(client, {
    ...options,
    request: (req) => ({ userId: text(req, "x-user"), apiKey: text(req, "x-api-key"), cost: Number(text(req, "x-cost") || 1) }),
  });
  const hello = (req: Plain, res: { end: (body: string) => unknown }) => { setTimeout(() => res.end("hello"), Number(text(req, "x-hold-ms"))); };
  const server = http === 2 ? createHTTP2((req, res) => { void middleware(req, res, (error) => { if (error) res.statusCode = 500; hello(req, res); }); }) : createHTTP(expressApp());
  after(() => { (server as Server).closeAllConnections?.(); server.close(); });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;

  function expressApp() {
    const app = express();
    app.use(middleware);
    app.use((req: Request, res: Response) => { hello(req, res); });
    // eslint-disable-next-line @typescript-eslint/no-unused-vars -- Express counts parameters
    app.use((_error: unknown, _: Request, res: Response, _next: NextFunction) => res.status(500).end());
    return app;
  }
}
