import { expect, type Page } from "@playwright/test";
import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test, testRedis, tokens } from "./fleet";
import { goTo, openAs } from "./page";

// The pictures of docs/console.md, from a fleet under load. See make console-pictures.
test("pictures", async ({ browser, fleet }) => {
  test.setTimeout(300_000);
  fleet.load("mallory");
  const { page } = await openAs(browser, fleet.servers[0]!.admin, "operator");
  const take = (name: string) => page.screenshot({ path: join("..", "docs", "images", `console-${name}.png`) });
  await page.waitForTimeout(125_000); // the charts show two minutes
  await take("overview");

  await page.emulateMedia({ colorScheme: "dark" });
  await goTo(page, "#/callers");
  await expect(page.getByRole("row", { name: /mallory/ })).toBeVisible();
  await take("callers");
  await page.emulateMedia({ colorScheme: "light" });

  await goTo(page, "#/rules/api-limits");
  await page.getByRole("button", { name: "Change per-user", exact: true }).click();
  await page.getByLabel("Capacity").fill("10");
  await page.getByRole("button", { name: "Review the change" }).click();
  await expect(page.getByRole("region", { name: "Changes" })).toBeVisible();
  await take("rules");

  await goTo(page, "#/explain?" + new URLSearchParams({ ruleSet: "api-limits", rule: "per-user", userId: "mallory" }).toString());
  await page.getByRole("region", { name: "Bucket of per-user" }).scrollIntoViewIfNeeded();
  await take("explain");

  await goTo(page, "#/fleet");
  await expect(page.getByRole("heading", { level: 1, name: "Fleet" })).toBeVisible();
  await expect(page.getByText("Loading")).toHaveCount(0);
  await take("fleet");

  // The picture of the README: a rejected request, and its caller in the console.
  await goTo(page, "#/callers");
  await page.setViewportSize({ width: 940, height: 355 });
  await expect(page.getByRole("row", { name: /mallory/ })).toBeVisible();
  const console = (await page.screenshot()).toString("base64");
  const command = "fluxgate check --user mallory --path /api/orders";
  let output = "";
  for (let tries = 0; tries < 50 && !output.startsWith("rejected"); tries++)
    output = spawnSync(process.env.FLUXGATE!, [...command.split(" ").slice(1), "--rule-set", "api-limits", "--server", fleet.servers[0]!.http], {
      env: { ...process.env, FLUXGATE_TOKEN: tokens.gateway },
      encoding: "utf8",
    }).stdout;
  const front = await browser.newPage({ viewport: { width: 1440, height: 380 }, deviceScaleFactor: 2 });
  await front.setContent(`<style>
      body { display: flex; gap: 20px; align-items: start; margin: 0; padding: 20px; background: #eef2f1 }
      pre { margin: 0; flex: 1; padding: 44px 20px 20px; min-height: 276px; border-radius: 10px; background: #1b1b1f; color: #e5e7eb; font: 13px/1.6 monospace; white-space: pre-wrap }
      img { width: 900px; border-radius: 10px; border: 1px solid #d4dad9 }
    </style><pre></pre><img src="data:image/png;base64,${console}">`);
  await front.locator("pre").evaluate((e, text) => (e.textContent = text), `$ ${command}\n${output}$ `);
  writeFileSync(join("..", "docs", "images", "front.webp"), await asWebP(front, await front.screenshot()));
});

// The pictures of docs/customers.md.
testRedis("pictures of overrides", async ({ browser, fleet }) => {
  fleet.load("acme");
  const { page } = await openAs(browser, fleet.servers[0]!.admin, "operator");
  const overrides = ["globex", "initech", "umbrella"].map((userId, i) => ({
    ruleId: "per-user",
    identity: { userId },
    times: [3, 1.5, 20][i],
    until: new Date(Date.now() + (i + 1) * 9e7).toISOString(),
    reason: ["contract 4711", "trial", "migration of their archive"][i],
  }));
  expect((await fleet.servers[0]!.call("PUT", "/v1/rule-sets/api-limits/overrides", { overrides })).ok).toBe(true);
  for (const colorScheme of ["light", "dark"] as const) {
    await page.emulateMedia({ colorScheme });
    await page.setViewportSize({ width: 1000, height: 620 });
    await goTo(page, "#/callers");
    await page.getByRole("button", { name: "Override for user acme" }).click();
    await page.getByRole("spinbutton", { name: "Times" }).fill("10");
    await page.getByLabel("Reason").fill("launch day");
    await page.screenshot({ path: join("..", "docs", "images", `override-form-${colorScheme}.png`) });
    await page.keyboard.press("Escape");
    await page.setViewportSize({ width: 1000, height: 340 });
    await goTo(page, "#/overrides/api-limits");
    await expect(page.getByRole("row", { name: /umbrella/ })).toBeVisible();
    await page.screenshot({ path: join("..", "docs", "images", `overrides-${colorScheme}.png`) });
  }
});

// asWebP returns a picture as WebP, a third of the size: the home page shows it.
async function asWebP(page: Page, png: Buffer): Promise<Buffer> {
  const data = await page.evaluate(async (address) => {
    const image = new Image();
    image.src = address;
    await image.decode();
    const canvas = document.createElement("canvas");
    Object.assign(canvas, { width: image.width, height: image.height });
    canvas.getContext("2d")!.drawImage(image, 0, 0);
    return canvas.toDataURL("image/webp", 0.85);
  }, "data:image/png;base64," + png.toString("base64"));
  return Buffer.from(data.split(",")[1]!, "base64");
}
