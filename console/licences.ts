import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import type { Plugin } from "vite";

// licences writes licences.txt: the licence of every package that has code in the
// bundle. A package without one is an error.
export function licences(): Plugin {
  return {
    name: "licences",
    generateBundle(_, bundle) {
      const folders = new Set<string>(["node_modules/@mantine/core"]); // styles alone leave no module
      for (const chunk of Object.values(bundle)) {
        if (chunk.type !== "chunk") continue;
        for (const id of chunk.moduleIds) {
          const found = /node_modules\/(?:@[^/]+\/)?[^/]+/g;
          const last = [...id.matchAll(found)].pop();
          if (last) folders.add(id.slice(id.indexOf("node_modules/"), last.index + last[0].length));
        }
      }
      const texts = [...folders].sort().map((folder) => {
        const about = JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as { name: string; version: string; license: string; author?: string | { name: string } };
        const file = readdirSync(folder).find((name) => /^licen[cs]e/i.test(name));
        if (!about.license) this.error(`${about.name} has no licence`);
        const author = typeof about.author === "object" ? about.author.name : about.author;
        const text = file ? readFileSync(join(folder, file), "utf8").trim() : `Copyright ${author ?? "the authors"}. The package has no text of the licence.`;
        return `${about.name} ${about.version}: ${about.license}\n\n${text}\n`;
      });
      const rule = "\n" + "-".repeat(78) + "\n\n";
      this.emitFile({ type: "asset", fileName: "licences.txt", source: "The console contains these packages.\n" + rule + texts.join(rule) });
    },
  };
}
