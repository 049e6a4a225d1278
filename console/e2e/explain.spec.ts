import { expect, type Page } from "@playwright/test";
import { test } from "./fleet";
import { goTo, lookAround, openAs } from "./page";

const rules = [
  { id: "per-user", path: "/orders/**", limitScope: "USER_ID", bands: [{ label: "hour", capacity: 10, refill: "1h" }, { label: "month", kind: "quota", capacity: 1000, period: "month" }] },
  { id: "tenant", path: "/orders/**", when: { headers: { "X-Tenant": ["acme"] } }, bands: [{ label: "window", kind: "sliding-window", capacity: 50, period: "1h" }] },
  { id: "posts", path: "/orders/**", method: "POST", bands: [{ label: "posts", kind: "concurrency", capacity: 3, hold: "30s" }] },
  { id: "others", path: "/orders/**", when: { users: ["bob"] }, bands: [{ capacity: 1, refill: "1s" }] },
  { id: "off", enabled: false, bands: [{ capacity: 1, refill: "1s" }] },
];

const curl = `curl 'https://api.example.com/orders/7?full=1' \\
  -H 'X-Tenant: acme' -H 'Authorization: Bearer secret' --frobnicate \\
  --data '{"a":1}' -u me:secret -sS`;

async function paste(page: Page): Promise<void> {
  await page.getByText("Paste a curl command").click();
  await page.getByLabel("curl command").fill(curl);
  await page.getByRole("button", { name: "Fill in the form" }).click();
}

test("a request is explained by curl, and a bucket reset", async ({ browser, fleet }, info) => {
  const server = fleet.servers[0]!;
  expect((await server.call("PUT", "/v1/rule-sets/orders", { id: "orders", rules }, { "If-None-Match": "*" })).status).toBe(201);
  for (let i = 0; i < 8; i++) {
    const checked = await server.check({ ruleSet: "orders", userId: "alice", method: "GET", path: "/orders/7", headers: { "X-Tenant": ["acme"] } });
    expect(((await checked.json()) as { allowed: boolean }).allowed).toBe(true);
  }
  const { page, wrong } = await openAs(browser, server.admin, "operator");
  await goTo(page, "#/explain");
  await lookAround(page, info, "form");
  await paste(page);
  await expect(page.getByRole("status").filter({ hasText: "Read as POST /orders/7" })).toContainText("--frobnicate is not known");
  await expect(page.getByRole("status").filter({ hasText: "Read as" })).toContainText("-u was left out");
  await expect(page.getByLabel("Headers")).toHaveValue("X-Tenant: acme");
  await page.getByLabel("Rule set").selectOption("orders");
  await page.getByLabel("User").fill("alice");
  await page.getByRole("button", { name: "Explain", exact: true }).click();

  await expect(page.getByText("It would pass: every limit has room for it.")).toBeVisible();
  const applying = page.getByRole("table", { name: "Rules that apply" });
  for (const rule of ["per-user", "tenant", "posts"]) await expect(applying.getByRole("link", { name: rule })).toBeVisible();
  const others = page.getByRole("table", { name: "Rules that do not apply" });
  await expect(others.getByRole("row", { name: /others/ })).toContainText("It is for other users.");
  await expect(others.getByRole("row", { name: /off/ })).toContainText("It is disabled.");
  const bucket = page.getByRole("region", { name: "Bucket of per-user" });
  await expect(bucket).toContainText("2 of 10 tokens left");
  await expect(bucket).toContainText(/Full in 4\d min/);
  await expect(bucket.getByRole("img", { name: /2 of 10 tokens left/ })).toBeVisible();
  await expect(page.getByRole("region", { name: "Bucket of posts" })).toContainText("3 of 3 slots left");
  await lookAround(page, info, "result");

  // Resetting asks first.
  await page.getByRole("button", { name: "Reset the bucket of per-user" }).click();
  await expect(page.getByRole("dialog")).toContainText("cannot be undone");
  await lookAround(page, info, "reset");
  await page.getByRole("button", { name: "Cancel" }).click();
  await expect(bucket).toContainText("2 of 10 tokens left");
  await page.getByRole("button", { name: "Reset the bucket of per-user" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Reset", exact: true }).click();
  await expect(bucket).toContainText("10 of 10 tokens left");
  await expect(page.getByRole("region", { name: "Bucket of tenant" })).toContainText("42 of 50"); // the others stay
  await page.close();
  expect(wrong).toEqual([]);
});

test("a caller that is limited is explained from its address", async ({ browser, fleet }, info) => {
  const { page, wrong } = await openAs(browser, fleet.servers[0]!.admin, "reader");
  await goTo(page, "#/explain?ruleSet=api-limits&userId=user-1&path=/api/orders&method=GET&ip=192.0.2.7");
  await expect(page.getByRole("region", { name: "Bucket of per-user" })).toContainText(/of 5 tokens left/);
  await expect(page.getByText(/It would (pass|be rejected)/)).toBeVisible();
  await expect(page.getByText("needs the role write")).toBeVisible();
  await expect(page.getByRole("button", { name: /Reset/ })).toHaveCount(0);
  await lookAround(page, info, "reader");
  await page.close();
  expect(wrong).toEqual([]);
});

test("what is wrong with a request is said at the field", async ({ browser, fleet }) => {
  const { page, wrong } = await openAs(browser, fleet.servers[0]!.admin, "operator");
  await goTo(page, "#/explain");
  await page.getByLabel("Headers").fill("nonsense");
  await page.getByRole("button", { name: "Explain", exact: true }).click();
  await expect(page.getByText('"nonsense" is not of the form Name: value.')).toBeVisible();
  await page.getByText("Paste a curl command").click();
  await page.getByLabel("curl command").fill("rm -rf /");
  await page.getByRole("button", { name: "Fill in the form" }).click();
  await expect(page.getByText("The command must begin with curl.")).toBeVisible();
  await page.close();
  expect(wrong).toEqual([]);
});
