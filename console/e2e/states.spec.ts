import { execFileSync } from "node:child_process";
import { expect, type Browser, type Page, type TestInfo } from "@playwright/test";
import { Fleet, testRedis as test } from "./fleet";
import { glance, goTo, look, openAs } from "./page";

// What every screen says while something is wrong.

const screens = { overview: "", rules: "rules", "rule-set": "rules/api-limits", rule: "rules/api-limits?rule=per-user", yaml: "rules/api-limits?view=yaml", history: "rules/api-limits?view=history", explain: "explain?ruleSet=api-limits&rule=per-user&userId=user-1", callers: "callers", overrides: "overrides/api-limits", warnings: "warnings", fleet: "fleet" };

// around looks at every screen, light and dark.
async function around(page: Page, info: TestInfo, state: string): Promise<void> {
  for (const [name, hash] of Object.entries(screens)) {
    await goTo(page, "#/" + hash);
    await expect(page.getByText("Loading", { exact: true })).toHaveCount(0, { timeout: 30_000 });
    await page.waitForTimeout(1500);
    for (const colorScheme of ["dark", "light"] as const) {
      await page.emulateMedia({ colorScheme });
      await glance(page, info, `${state}-${name}-${colorScheme}`);
    }
  }
  await goTo(page, "#/");
}

// withFleet runs a fleet of its own: the states last.
async function withFleet(servers: number, browser: Browser, run: (fleet: Fleet, page: Page) => Promise<void>): Promise<void> {
  const fleet = new Fleet();
  try {
    await fleet.start(servers, "{source: redis}");
    fleet.load();
    const { page } = await openAs(browser, fleet.servers[0]!.admin, "operator");
    await expect(page.getByText(`Healthy: ${servers === 1 ? "1 server answers" : `${servers} servers answer`}`)).toBeVisible({ timeout: 30_000 });
    await run(fleet, page);
    await page.close();
  } finally {
    await fleet.stop();
  }
}

test.setTimeout(400_000);

test("without Redis the rules in effect are shown", async ({ browser }, info) => {
  await withFleet(1, browser, async (fleet, page) => {
    fleet.redis.kill("SIGKILL");
    await expect(page.getByText(/Redis node 127.0.0.1:\d+ does not answer/)).toBeVisible({ timeout: 30_000 });
    await expect(page.getByText(/^Healthy/)).toHaveCount(0);
    for (const hash of ["rules", "rules/api-limits"]) {
      await goTo(page, "#/" + hash);
      await expect(page.getByText("The rule source cannot be read")).toBeVisible({ timeout: 30_000 });
      await expect(page.getByRole("row", { name: /per-user/ })).toContainText("5 per 1s");
      await expect(page.getByRole("button", { name: /Change/ })).toHaveCount(0);
      await expect(page.getByText("Redis does not answer: these are the numbers of this server only.")).toBeVisible();
    }
    // Nothing is offered that only the source has.
    await goTo(page, "#/rules/api-limits?view=history");
    await expect(page.getByText("The history is in the source, and is shown when it answers.")).toBeVisible();
    await expect(page.getByRole("alert")).toHaveCount(0);
    await goTo(page, "#/callers");
    await page.getByRole("button", { name: /^Exempt user/ }).first().click();
    await expect(page.getByRole("region", { name: "Changes" })).toBeVisible();
    await expect(page.getByRole("button", { name: "Edit as YAML" })).toBeVisible();
    await expect(page.getByRole("button", { name: "Save" })).toHaveCount(0);
    await page.getByRole("button", { name: "Discard" }).click();
    await around(page, info, "no-redis");
  });
});

test("a server that is killed is lost, and not one less", async ({ browser }, info) => {
  await withFleet(3, browser, async (fleet, page) => {
    await page.waitForTimeout(4000); // the page has asked for the fleet
    fleet.servers[2]!.process.kill("SIGKILL");
    await expect(page.getByText(/Server .* was lost \d+ s ago: it was killed, or cannot reach Redis/)).toBeVisible({ timeout: 30_000 });
    await expect(page.getByText(/^Healthy/)).toHaveCount(0);
    await goTo(page, "#/fleet");
    await expect(page.getByRole("table", { name: "Lost servers" })).toContainText("It was killed, or cannot reach Redis");
    await expect(page.getByRole("region", { name: "The last 10 seconds" })).toContainText("Servers2");
    await around(page, info, "killed");
  });
});

test("the server that answers is killed", async ({ browser }, info) => {
  await withFleet(2, browser, async (fleet, page) => {
    fleet.servers[0]!.process.kill("SIGKILL");
    await expect(page.getByText("The health of this server cannot be read: The server does not answer.")).toBeVisible({ timeout: 30_000 });
    await expect(page.getByText(/^Healthy/)).toHaveCount(0);
    await goTo(page, "#/rules/api-limits"); // its code was not loaded before
    await expect(page.getByRole("main").getByText("The server does not answer.").first()).toBeVisible();
    await expect(page.getByText(/The console failed/)).toHaveCount(0);
    await around(page, info, "gone");
  });
});

test("a server that is down is not healthy", async ({ browser }, info) => {
  await withFleet(1, browser, async (fleet, page) => {
    const { status } = await fleet.servers[0]!.call("DELETE", "/v1/rule-sets/api-limits", undefined, { "If-Match": "*" });
    expect(status).toBe(200);
    expect((await fleet.servers[0]!.call("GET", "/v1/health")).status).toBe(503);
    await expect(page.getByText(/Server .* is down/)).toBeVisible({ timeout: 30_000 });
    await expect(page.getByText(/^Healthy/)).toHaveCount(0);
    await around(page, info, "down");
  });
});

test("rules that the source has lost are still in effect", async ({ browser }, info) => {
  await withFleet(1, browser, async (fleet, page) => {
    execFileSync("redis-cli", ["-p", String(fleet.redisPort), "FLUSHALL"]);
    for (const hash of ["rules", "rules/api-limits", "rules/api-limits?view=yaml"]) {
      await goTo(page, "#/" + hash);
      await expect(page.getByText("Servers still apply api-limits, revision 1.")).toBeVisible({ timeout: 30_000 });
    }
    await goTo(page, "#/");
    await expect(page.getByText(/Rule set api-limits: rule set missing in the source .* Still serving revision 1/)).toBeVisible({ timeout: 60_000 });
    await goTo(page, "#/rules/api-limits?view=history");
    await expect(page.getByText("There are no revisions.")).toBeVisible();
    await goTo(page, "#/explain?ruleSet=api-limits&rule=per-user&userId=user-1");
    await expect(page.getByText(/Rule per-user could not be read, so the request does not have what it demands/)).toBeVisible();
    await goTo(page, "#/warnings");
    await expect(page.getByText("No warnings are stored.")).toBeVisible(); // not that there were none
    await around(page, info, "lost");
  });
});

const shown = {
  id: "shown",
  rules: [
    { id: "llm", path: "/llm/**", method: "POST", limitScope: "USER_ID", when: { attributes: { plan: ["free"] }, headers: { "X-Team": ["red"] } }, attributes: { account: "NUMBER" }, bands: [{ label: "month", kind: "quota", capacity: 2, period: "month", warnAt: ["80%"] }] },
    { id: "no-admin", path: "/admin/**", action: "deny" },
    { id: "all", bands: [{ label: "second", capacity: 100_000, refill: "1s" }] },
  ],
};

test("a limited caller is explained by a request that the rule is for, and gets other numbers", async ({ browser, fleet }, info) => {
  const server = fleet.servers[0]!;
  const body = JSON.stringify(shown).replace('"NUMBER"', "9007199254740993");
  const put = await fetch(server.admin + "/v1/rule-sets/shown", { method: "PUT", body, headers: { Authorization: "Bearer token-of-an-operator", "Content-Type": "application/json", "If-None-Match": "*" } });
  expect(put.status).toBe(201);
  const ask = { ruleSet: "shown", userId: "greta", ip: "192.0.2.9", method: "POST", path: "/llm/chat", attributes: { plan: "free" }, headers: { "X-Team": ["red"] } };
  let sending = true;
  const load = (async () => {
    while (sending) {
      await server.check(ask);
      for (let i = 0; i < 5; i++) await server.check({ ...ask, path: "/admin/x" });
      await new Promise((r) => setTimeout(r, 100));
    }
  })();
  try {
    const { page, wrong } = await openAs(browser, server.admin, "operator");
    // The rule that denies rejects most.
    await expect(page.getByRole("region", { name: "Rules that reject most" }).getByRole("row").nth(1)).toContainText("no-admin", { timeout: 30_000 });
    await goTo(page, "#/rules/shown");
    await expect(page.getByRole("row", { name: /no-admin/ })).toContainText(/[1-9]\d?\.\d/);
    await goTo(page, "#/callers?ruleSet=shown");
    await page.getByRole("link", { name: "Explain user greta" }).click();
    await expect(page.getByText("It would be rejected: a limit is used up. Rule llm, limit month decides.")).toBeVisible();
    await expect(page.getByLabel("Attributes")).toHaveValue("plan=free");
    await expect(page.getByLabel("Method")).toHaveValue("POST");
    // Another request has no verdict about the rule.
    await page.getByLabel("Attributes").fill("plan=paid");
    await page.getByRole("button", { name: "Explain", exact: true }).click();
    await expect(page.getByText("Rule llm does not apply to this request: The attribute plan is missing or has another value.")).toBeVisible();
    await expect(page.getByText("It would pass")).toHaveCount(0);
    await page.getByRole("button", { name: "Decide this request anyway" }).click();
    await expect(page.getByText("It would pass")).toBeVisible();

    // An override of a rule with warnAt.
    await goTo(page, "#/callers?ruleSet=shown");
    await page.getByRole("button", { name: "Override for user greta" }).first().click();
    const form = page.getByRole("dialog");
    await form.getByText("Numbers", { exact: true }).click();
    await form.getByLabel("Capacity of month").fill("50");
    await form.getByRole("button", { name: "Save" }).click();
    await expect(page.getByRole("row").filter({ hasText: "userId greta" })).toContainText("month 50");

    // Its warning says how to get the name.
    await goTo(page, "#/warnings");
    await expect(page.getByRole("row").filter({ hasText: "80 %" })).toContainText("llm");
    await expect(page.getByText("Names need the setting events.identities. API keys have none.")).toBeVisible();
    await look(page, info, "warnings");

    // A change of another field keeps the number.
    await goTo(page, "#/rules/shown");
    await page.getByRole("button", { name: "Change all", exact: true }).click();
    await page.getByRole("dialog").getByText("Shadow", { exact: true }).click();
    await page.getByRole("button", { name: "Review the change" }).click();
    await page.getByRole("button", { name: "Save" }).click();
    await expect(page.getByText("Saved as revision 2.")).toBeVisible();
    expect(await (await server.call("GET", "/v1/rule-sets/shown")).text()).toContain('"account":9007199254740993');
    await goTo(page, "#/rules/shown?rule=llm");
    await expect(page.getByText("account: 9007199254740993")).toBeVisible();
    expect(wrong).toEqual([]);
    await page.close();
  } finally {
    sending = false;
    await load;
  }
});
