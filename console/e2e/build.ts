import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

// build compiles the servers that the tests run: ours, with the committed assets, and one
// with MongoDB's protocol.
export default function build(): () => void {
  const folder = mkdtempSync(join(tmpdir(), "fluxgate-"));
  const program = join(folder, "fluxgate");
  execFileSync("go", ["build", "-o", program, "./cmd/fluxgate"], { cwd: "..", stdio: "inherit" });
  process.env.FLUXGATE = program;
  process.env.MONGO = join(folder, "mongo");
  execFileSync("go", ["build", "-o", process.env.MONGO, "."], { cwd: "../internal/testenv/ferretdb", stdio: "inherit" });
  return () => rmSync(folder, { recursive: true });
}
