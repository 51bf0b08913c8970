import { expect, it } from "vitest";
import { addedTo, askedPermissions, permits, withAdded, withPermission } from "./access-rules";

it("lists what the runner asks for, then what the policy gives beyond that", () => {
  const listed = askedPermissions({ tools: ["detail", "call"] }, { permissions: { tools: ["call"], history: ["page"] } });
  expect(listed).toEqual([
    { permission: "tools.detail", isAsked: true },
    { permission: "tools.call", isAsked: true },
    { permission: "history.page", isAsked: false },
  ]);
});

it("gives and takes one operation, and leaves no empty family behind", () => {
  const given = withPermission({ permissions: { tools: ["detail"] } }, "tools.call", true);
  expect(given).toEqual({ permissions: { tools: ["detail", "call"] } });
  expect(permits(given, "tools.call")).toBe(true);
  expect(permits(given, "models.invoke")).toBe(false);
  expect(withPermission(withPermission(given, "tools.call", false), "tools.detail", false)).toEqual({});
});

it("adds resources of one kind, and keeps the limit and the other kinds", () => {
  const access = { resources: { tools: { only: ["a"] }, agents: { add: ["echo"] } }, conversations: ["c"] };
  const next = withAdded(access, "tools", ["a", "b"]);
  expect(next).toEqual({ resources: { agents: { add: ["echo"] }, tools: { only: ["a"], add: ["a", "b"] } }, conversations: ["c"] });
  expect(addedTo(next, "tools")).toEqual(["a", "b"]);
  expect(withAdded(next, "agents", [])).toEqual({ resources: { tools: { only: ["a"], add: ["a", "b"] } }, conversations: ["c"] });
});
