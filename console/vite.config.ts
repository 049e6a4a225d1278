import react from "@vitejs/plugin-react";
import { defineConfig, type Plugin } from "vite";
import { licences } from "./licences.ts";

// The styles of CodeMirror are a <style> element, which the Content-Security-Policy
// refuses. The library can add them to document.adoptedStyleSheets instead, and does
// so in a shadow root only.
function adoptStyles(): Plugin {
  return {
    name: "adopt-styles",
    transform(code, id) {
      if (!id.includes("/style-mod/")) return null;
      const adopted = code.replace("!root.head && root.adoptedStyleSheets", "root.adoptedStyleSheets");
      if (adopted === code) this.error("style-mod has changed: see adoptStyles");
      return { code: adopted, map: null };
    },
  };
}

export default defineConfig({
  base: "./",
  publicDir: "../docs/public", // the logo
  plugins: [react(), adoptStyles(), licences()],
  build: {
    // The assets are committed: their names do not change, and the server has an
    // ETag for each.
    rollupOptions: {
      output: { entryFileNames: "app.js", chunkFileNames: "[name].js", assetFileNames: "app[extname]" },
    },
    cssCodeSplit: false,
    modulePreload: false,
    assetsInlineLimit: 0,
    target: "es2022",
    chunkSizeWarningLimit: 1000,
  },
  server: { proxy: { "/v1": "http://127.0.0.1:9090" } },
  test: { include: ["src/**/*.test.ts"] },
} as Parameters<typeof defineConfig>[0]);
