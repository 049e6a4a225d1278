import axe from "axe-core";
import { expect, type Page } from "@playwright/test";
import { test, tokens } from "./fleet";

const screens = ["Overview", "Rules", "Explain", "Callers", "Fleet", "Audit"];

// watch collects what must never happen: an error in the page, and a request to
// another host.
function watch(page: Page, origin: string): string[] {
  const wrong: string[] = [];
  page.on("pageerror", (error) => wrong.push(error.message));
  page.on("console", (message) => {
    // The browser logs the 401 that says that a token is needed.
    if (message.type() === "error" && !message.text().includes("401")) wrong.push(message.text());
  });
  page.on("request", (request) => {
    if (!request.url().startsWith(origin + "/") && !request.url().startsWith("data:")) wrong.push("request to " + request.url());
  });
  return wrong;
}

async function signIn(page: Page, origin: string, token: string): Promise<void> {
  await page.goto(origin + "/console/");
  await page.getByRole("textbox", { name: "Token" }).fill(token);
  await page.getByRole("button", { name: "Sign in" }).click();
  await expect(page.getByRole("heading", { level: 1, name: "Overview" })).toBeVisible();
}

async function violations(page: Page): Promise<string[]> {
  await page.evaluate(axe.source);
  const found = await page.evaluate(() => (window as unknown as { axe: typeof axe }).axe.run());
  return found.violations.flatMap((v) => v.nodes.map((n) => `${v.id}: ${n.html}: ${n.failureSummary}`));
}

for (const colorScheme of ["light", "dark"] as const) {
  for (const width of [1280, 360]) {
    test(`every screen, ${colorScheme}, ${width} px`, async ({ browser, fleet }, info) => {
      const origin = fleet.servers[0]!.admin;
      const context = await browser.newContext({ colorScheme, viewport: { width, height: 800 } });
      const page = await context.newPage();
      const wrong = watch(page, origin);
      const look = async (name: string) => {
        await page.screenshot({ path: info.outputPath(name + ".png"), fullPage: true });
        expect.soft(await violations(page), name).toEqual([]);
        const overflow = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
        expect.soft(overflow, name + " scrolls sideways").toBe(0);
      };
      await page.goto(origin + "/");
      await expect(page.getByRole("heading", { name: "Sign in to FluxGate" })).toBeVisible();
      await look("sign-in");
      await signIn(page, origin, tokens.operator);
      for (const name of screens) {
        await page.getByRole("navigation").getByRole("link", { name }).click();
        await expect(page.getByRole("heading", { level: 1, name })).toBeVisible();
        await expect(page.getByText("Loading")).toHaveCount(0);
        await look(name.toLowerCase());
      }
      expect(wrong).toEqual([]);
      await context.close();
    });
  }
}
