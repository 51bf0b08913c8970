import type { Overview } from "@bollard/client";
import { expect, test } from "vitest";
import { mainCurrency } from "./currency";

test("the main currency is the one in which most was spent", () => {
  const agent = (cost: Record<string, number>): Overview["agents"][number] => ({ agent_id: "a", runs: 1, failed: 0, tokens: 1, cost });
  expect(mainCurrency([agent({ USD: 1, CNY: 3 }), agent({ CNY: 2 })])).toBe("CNY");
  expect(mainCurrency([agent({})])).toBeUndefined();
});
