import { expect } from "@playwright/test";
import { attacker, test } from "./fleet";
import { signIn, watch } from "./page";

test("the overview follows the fleet, and says that Redis does not answer", async ({ page, fleet }) => {
  const { admin } = fleet.servers[0]!;
  const wrong = watch(page, admin);
  await signIn(page, admin, "operator");
  await expect(page.getByText("Healthy: 2 servers answer")).toBeVisible();
  await expect(page.getByRole("img", { name: /^Requests per second, 2 servers over time. Latest: Allowed [1-9]/ })).toBeVisible();
  fleet.redis.kill("SIGSTOP");
  await expect(page.getByText(/Redis node 127.0.0.1:\d+ does not answer.* rules decide by onFailure/)).toBeVisible({ timeout: 30_000 });
  await page.screenshot({ path: test.info().outputPath("frozen.png"), fullPage: true });
  fleet.redis.kill("SIGCONT");
  await expect(page.getByText("Healthy: 2 servers answer")).toBeVisible({ timeout: 60_000 });
  expect(wrong).toEqual([]);
});

test("a limited caller is text, and leads to explain and to a proposed change", async ({ page, fleet }) => {
  const { admin } = fleet.servers[0]!;
  const wrong = watch(page, admin);
  await signIn(page, admin, "operator");
  await page.getByRole("link", { name: "Callers", exact: true }).click();
  const row = page.getByRole("row").filter({ hasText: attacker });
  await expect(row).toContainText("api-limits / per-user");
  await expect(row.getByRole("link", { name: "Explain" })).toHaveAttribute(
    "href",
    "#/explain?" + new URLSearchParams({ ruleSet: "api-limits", rule: "per-user", userId: attacker }).toString(),
  );
  await row.getByRole("button", { name: "Exempt" }).click();
  await expect(page.getByRole("heading", { name: `Exempt user ${attacker} from per-user` })).toBeVisible();
  expect(page.url()).toContain("#/rules/api-limits");
  expect(await page.title()).not.toBe("run");
  expect(wrong).toEqual([]);
});

test("a reader sees keys instead of callers and cannot propose a change", async ({ page, fleet }) => {
  const { admin } = fleet.servers[1]!;
  await signIn(page, admin, "reader");
  await page.getByRole("link", { name: "Callers", exact: true }).click();
  await expect(page.getByRole("row").filter({ hasText: "api-limits / per-user" }).first()).toBeVisible();
  await expect(page.getByText(attacker)).toHaveCount(0);
  await expect(page.getByRole("button", { name: "Exempt" })).toHaveCount(0);
});

test("the caller of a shadow rule is marked", async ({ page, fleet }) => {
  const server = fleet.servers[0]!;
  const limit = { limitScope: "USER_ID", bands: [{ capacity: 1, refill: "1h" }] };
  const rules = [{ ...limit, id: "measured", path: "/measured", mode: "shadow" }, { ...limit, id: "limits", path: "/limits" }];
  expect((await server.call("PUT", "/v1/rule-sets/mixed", { id: "mixed", rules }, { "If-None-Match": "*" })).ok).toBe(true);
  for (const path of ["/measured", "/measured", "/limits", "/limits"]) await server.check({ ruleSet: "mixed", userId: "dora", path });
  await signIn(page, server.admin, "operator");
  await page.goto(server.admin + "/console/#/callers?ruleSet=mixed");
  await expect(page.getByRole("row").filter({ hasText: "mixed / measured" })).toContainText("shadow");
  await expect(page.getByRole("row").filter({ hasText: "mixed / limits" })).not.toContainText("shadow");
});

test("a token that ends is asked for again on the same screen", async ({ page, fleet }) => {
  const { admin } = fleet.servers[0]!;
  await signIn(page, admin, "reader");
  await page.getByRole("link", { name: "Callers", exact: true }).click();
  await page.getByText("Allowed", { exact: true }).click();
  fleet.accept("operator", "gateway");
  const notice = page.getByRole("dialog", { name: "The token is not accepted any more" });
  await expect(notice).toBeVisible();
  await page.screenshot({ path: test.info().outputPath("ended.png") });
  await notice.getByRole("textbox", { name: "Token" }).fill("a wrong token");
  await notice.getByRole("button", { name: "Sign in" }).click();
  await expect(notice.getByText(/Not accepted/)).toBeVisible();
  fleet.accept("reader", "operator", "gateway");
  await expect(async () => {
    if (await notice.isVisible()) {
      await notice.getByRole("textbox", { name: "Token" }).fill("token-of-a-reader", { timeout: 5000 });
      await notice.getByRole("button", { name: "Sign in" }).click({ timeout: 5000 });
    }
    await expect(notice).toBeHidden({ timeout: 1000 });
  }).toPass();
  await expect(page.getByRole("radio", { name: "Allowed" })).toBeChecked();
});

test("the token is in no storage and no address, and is gone after a reload", async ({ page, fleet }) => {
  const { admin } = fleet.servers[0]!;
  await signIn(page, admin, "operator");
  const kept = await page.evaluate(() => JSON.stringify({ ...localStorage, ...sessionStorage }) + document.cookie + location.href);
  expect(kept).not.toContain("token-of");
  await page.reload();
  await expect(page.getByRole("heading", { name: "Sign in to FluxGate" })).toBeVisible();
});

test("no other page frames the console", async ({ page, fleet }) => {
  const [console, other] = [fleet.servers[0]!.admin, fleet.servers[1]!.admin]; // another port is another origin
  await page.route(other + "/frame", (route) => route.fulfill({ contentType: "text/html", body: `<iframe src="${console}/console/"></iframe>` }));
  await page.goto(other + "/frame");
  await expect.poll(() => page.frames()[1]?.url()).toBe("chrome-error://chromewebdata/");
});

test("every screen is reached by keyboard", async ({ page, fleet }) => {
  await signIn(page, fleet.servers[0]!.admin, "operator");
  const focused = () => page.evaluate(() => document.activeElement?.textContent);
  await page.evaluate(() => (document.activeElement as HTMLElement).blur());
  await page.keyboard.press("Tab");
  expect(await focused()).toBe("Skip to the content");
  for (const name of ["FluxGate", "Overview", "Rules", "Explain", "Callers"]) {
    await page.keyboard.press("Tab");
    expect(await focused()).toBe(name);
  }
  await page.keyboard.press("Enter");
  await expect(page.getByRole("heading", { level: 1, name: "Callers" })).toBeVisible();
});

test("a hidden tab asks nothing", async ({ page, fleet }) => {
  await signIn(page, fleet.servers[0]!.admin, "operator");
  let asked = 0;
  page.on("request", (request) => (asked += Number(request.url().includes("/v1/"))));
  const show = (state: string) =>
    page.evaluate((value) => {
      Object.defineProperty(document, "visibilityState", { value, configurable: true });
      document.dispatchEvent(new Event("visibilitychange"));
    }, state);
  await expect.poll(() => asked).toBeGreaterThan(0);
  await show("hidden");
  await page.waitForTimeout(1000); // what is under way
  asked = 0;
  await page.waitForTimeout(5000); // more than two intervals
  expect(asked).toBe(0);
  await show("visible");
  await expect.poll(() => asked).toBeGreaterThan(0);
});
