import AxeBuilder from "@axe-core/playwright";
import { expect, test, type Host } from "./host";

const CLERK = {
  runner_id: "plugin:bollard/demo/default",
  policy: {
    access: { permissions: { tools: ["call"] }, resources: { tools: { add: ["tool:builtin/calculate", "tool:bollard/echo/count_words", "tool:builtin/ask_user"] } } },
    approval: { rules: [{ capability: "*calculate", decision: "always" }, { capability: "*count_words", decision: "always" }] },
    audience: { see: { who: "everyone" } },
  },
};
async function ask(host: Host, text: string): Promise<void> {
  await host.ask("POST", "/api/v1/runs", { agent: "clerk", conversation: `c-${Math.random()}`, input: { text }, actor: { id: "li", name: "Li" } });
}
test.beforeAll(async ({ host }) => {
  await host.ask("PUT", "/api/v1/agents/clerk", CLERK);
});

test("requests arrive live and are decided with the keyboard, one by one", { tag: "@smoke" }, async ({ page, host }) => {
  await page.goto(`${host.url}/approvals`);
  await expect(page.getByRole("heading", { name: "Nothing waits for you" })).toBeVisible();
  await ask(host, 'call calculate {"expression":"1+1"}');
  await expect(page.getByText('"1+1"')).toBeVisible();
  await ask(host, 'call calculate {"expression":"2+2"}');
  await expect(page.getByText('"2+2"')).toBeVisible();
  const cards = page.getByRole("region", { name: "calculate" });
  await expect(cards).toHaveCount(2);
  await expect(cards.first().getByText("user:li")).toBeVisible();
  await cards.first().focus();
  await page.keyboard.press("j");
  await expect(cards.nth(1)).toBeFocused();
  await page.keyboard.press("k");
  await expect(cards.first().getByRole("button", { name: "Allow once" })).toBeEnabled();
  await page.keyboard.down("Enter");
  await page.keyboard.down("Enter"); // a held key repeats
  await page.keyboard.down("Enter");
  await page.keyboard.up("Enter");
  await expect(page.getByText('"1+1"')).toBeHidden();
  await expect(page.getByText('"2+2"')).toBeVisible();
  await expect(page.getByRole("tab", { name: "Waiting (1)" })).toBeVisible();
  await page.getByRole("button", { name: "Deny", exact: true }).click();
  await expect(page.getByRole("heading", { name: "Nothing waits for you" })).toBeVisible();
  await page.getByRole("tab", { name: "History" }).click();
  await expect(page.getByRole("row").nth(1)).toContainText("Denied");
  await expect(page.getByRole("row").nth(2)).toContainText("ann");
  await page.getByRole("row").nth(1).getByRole("button", { name: "calculate" }).click();
  await expect(page.getByRole("dialog").getByText('"2+2"')).toBeVisible();
  await expect(page).toHaveURL(/approval=apr_/);
});

test("attached content is opened before it is allowed", async ({ page, host }) => {
  await ask(host, `call count_words {"text":"${"word \u200b".repeat(900)}"}`);
  await page.goto(`${host.url}/approvals`);
  const card = page.getByRole("region", { name: "count_words" });
  await expect(card.getByText("Open the attached content before you allow this.")).toBeVisible();
  await expect(card.getByRole("button", { name: "Allow once" })).toBeDisabled();
  await card.getByRole("button", { name: "Open", exact: true }).click();
  await expect(card.getByText(/⟪U\+200B⟫/).first()).toBeVisible();
  const more = card.getByRole("button", { name: /Show more lines/ });
  while (await more.isVisible()) await more.click();
  const { violations } = await new AxeBuilder({ page }).analyze();
  expect(violations.filter((each) => each.impact === "serious" || each.impact === "critical")).toEqual([]);
  await card.getByRole("button", { name: "Allow once" }).click();
  await expect(card).toBeHidden();
});

test("questions are answered with a text", async ({ page, host }) => {
  await ask(host, 'call ask_user {"question":"What is the 名字?"}');
  await page.goto(`${host.url}/approvals`);
  await expect(page.getByText("What is the 名字?")).toBeVisible();
  await page.getByRole("textbox", { name: "Your answer" }).fill("jack"); // j and k are letters here
  await page.getByRole("textbox", { name: "Your answer" }).press("Enter");
  await expect(page.getByText("What is the 名字?")).toBeHidden();
});

test("a viewer sees a request and no way to decide it", async ({ browser, host }) => {
  await ask(host, 'call calculate {"expression":"3+3"}');
  const context = await browser.newContext();
  const { user, password } = await host.user("vera", "viewer");
  await host.signIn(context, user, password);
  const page = await context.newPage();
  await page.goto(`${host.url}/approvals`);
  await expect(page.getByText('"3+3"')).toBeVisible();
  await expect(page.getByRole("button", { name: "Allow once" })).toHaveCount(0);
  await page.getByRole("region", { name: "calculate" }).focus();
  await page.keyboard.press("Enter");
  await expect(page.getByText("Waiting for someone else")).toBeVisible();
  await context.close();
});
