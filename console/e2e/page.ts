import { expect, type Browser, type Page, type TestInfo } from "@playwright/test";
import axe from "axe-core";
import { tokens, type Token } from "./fleet";

// watch collects what must never happen: an error in the page, and a request to
// another host.
export function watch(page: Page, origin: string): string[] {
  const wrong: string[] = [];
  page.on("pageerror", (error) => wrong.push(error.message));
  page.on("console", (message) => {
    // The browser logs statuses that the console expects: a token is needed, a rule set
    // does not exist, another operator was first.
    if (message.type() === "error" && !/status of (401|404|412)/.test(message.text())) wrong.push(message.text());
  });
  page.on("request", (request) => {
    if (!request.url().startsWith(origin + "/") && !request.url().startsWith("data:")) wrong.push("request to " + request.url());
  });
  return wrong;
}

// signIn opens the console with a token.
export async function signIn(page: Page, origin: string, token: Token): Promise<void> {
  await page.goto(origin + "/console/");
  await page.getByRole("textbox", { name: "Token" }).fill(tokens[token]);
  await page.getByRole("button", { name: "Sign in" }).click();
  await expect(page.getByRole("heading", { level: 1, name: "Overview" })).toBeVisible();
}

// look takes a screenshot of a screen, and checks that it is accessible and does not
// scroll sideways.
export async function look(page: Page, info: TestInfo, name: string): Promise<void> {
  expect.soft(await violations(page), name).toEqual([]);
  await glance(page, info, name);
}

// glance takes a screenshot, and checks only that the screen does not scroll sideways and that no
// badge is cut.
export async function glance(page: Page, info: TestInfo, name: string, fullPage = true): Promise<void> {
  await page.screenshot({ path: info.outputPath(name + ".png"), fullPage });
  const overflow = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  expect.soft(overflow, name + " scrolls sideways").toBe(0);
  const cut = await page.locator(".mantine-Badge-label").evaluateAll((all) => all.filter((e) => e.scrollWidth > e.clientWidth).map((e) => e.textContent));
  expect.soft(cut, name + " cuts badges").toEqual([]);
}

async function violations(page: Page): Promise<string[]> {
  await page.evaluate(axe.source);
  const found = await page.evaluate(() => (window as unknown as { axe: typeof axe }).axe.run());
  return found.violations.flatMap((v) => v.nodes.map((n) => `${v.id}: ${n.html}: ${n.failureSummary}`));
}

// lookAround looks at the page light and dark, wide and narrow.
export async function lookAround(page: Page, info: TestInfo, name: string): Promise<void> {
  for (const colorScheme of ["light", "dark"] as const) {
    for (const width of [1280, 360]) {
      await page.emulateMedia({ colorScheme });
      await page.setViewportSize({ width, height: 800 });
      await look(page, info, `${name}-${colorScheme}-${width}`);
    }
  }
  await page.emulateMedia({ colorScheme: "light" });
  await page.setViewportSize({ width: 1280, height: 800 });
}

// openAs opens a page of the console, signed in.
export async function openAs(browser: Browser, origin: string, token: Token): Promise<{ page: Page; wrong: string[] }> {
  const page = await browser.newPage({ viewport: { width: 1280, height: 800 } });
  const wrong = watch(page, origin);
  await signIn(page, origin, token);
  return { page, wrong };
}

// goTo opens a screen without loading the page again, which would forget the token.
export async function goTo(page: Page, hash: string): Promise<void> {
  await page.evaluate((to) => (window.location.hash = to), hash);
}
