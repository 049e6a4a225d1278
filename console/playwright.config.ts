import { defineConfig } from "@playwright/test";

// The browser is the machine's own: none is downloaded.
export default defineConfig({
  testDir: "e2e",
  testMatch: process.env.E2E ?? "*.spec.ts", // the others measure or draw, and check nothing
  outputDir: "node_modules/.e2e", // the screenshots
  globalSetup: "./e2e/build.ts",
  workers: 1,
  // No traces: recording them blocks the page now and then.
  timeout: 240_000,
  expect: { timeout: 15_000 },
  reporter: "list",
  use: {
    browserName: "chromium",
    launchOptions: { executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium" },
  },
});
