import { expect, test } from "vitest";
import { bySource } from "./groups";

const offers = [
  { id: "tool:author/zip/pack", name: "pack", source: "plugin:author/zip" },
  { id: "mcp:github/", available: false, reason: "The server is down." },
  { id: "tool:builtin/now", name: "now", source: "builtin", description: "The current date." },
];

test("offers are grouped by source, and what is unavailable comes last", () => {
  expect(bySource(offers, "").map(([source]) => source)).toEqual(["builtin", "plugin:author/zip", "none"]);
});

test("a search looks at names, ids and descriptions", () => {
  expect(bySource(offers, "CURRENT").map(([source]) => source)).toEqual(["builtin"]);
  expect(bySource(offers, "github")[0]?.[1][0]?.reason).toBe("The server is down.");
  expect(bySource(offers, "nothing like it")).toEqual([]);
});
