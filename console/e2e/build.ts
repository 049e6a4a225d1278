import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

// build compiles the server that the tests run, with the committed assets.
export default function build(): () => void {
  const folder = mkdtempSync(join(tmpdir(), "fluxgate-"));
  const program = join(folder, "fluxgate");
  execFileSync("go", ["build", "-o", program, "./cmd/fluxgate"], { cwd: "..", stdio: "inherit" });
  process.env.FLUXGATE = program;
  return () => rmSync(folder, { recursive: true });
}
