import { expect, it } from "vitest";
import { isOf } from "./server-readme";

const item = { server: { command: "npx", args: ["-y", "files"], env: { HOME: "/tmp" } } };

it("knows a server by its program and arguments, whatever else is set", () => {
  expect(isOf(item, { command: "npx", args: ["-y", "files"] })).toBe(true);
  expect(isOf({ server: { url: "https://mcp.example.org" } }, { url: "https://mcp.example.org", args: [] })).toBe(true);
});

it("does not take another program, other arguments or another address for the item", () => {
  expect(isOf(item, { command: "npx", args: ["-y", "others"] })).toBe(false);
  expect(isOf(item, { command: "uvx", args: ["-y", "files"] })).toBe(false);
  expect(isOf({ server: { url: "https://mcp.example.org" } }, { url: "https://mcp.example.com" })).toBe(false);
  expect(isOf({}, { command: "npx" })).toBe(false);
});
