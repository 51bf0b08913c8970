import { screen } from "@testing-library/react";
import { expect, it, vi } from "vitest";
import { Field } from "@/ui/field";
import { show } from "../../tests/surroundings";
import { AgentSelect } from "./agent-select";
import { ListLimit } from "./list-limit";

it("names a truncated list, and is silent about a complete one", async () => {
  const whole = { items: ["a"], isWhole: true };
  show(<><ListLimit lists={[whole, undefined]} /><ListLimit lists={[whole, { items: ["b"], isWhole: false }]} /></>, [], () => ({}));
  await screen.findByText(/^Only the first 2,000 entries are listed here\./);
  expect(screen.getAllByRole("note")).toHaveLength(1);
});

it("offers every agent of the list, and keeps one that is gone", async () => {
  const items = ["agent-1", "agent-2"].map((agent_id) => ({ agent_id }));
  show(<Field label="Agent">{(ids) => <AgentSelect ids={ids} value="former" onChange={vi.fn()} />}</Field>, ["agents.read"], () => ({ items, has_more: false }));
  await screen.findByText("agent-2");
  expect(screen.getByLabelText<HTMLSelectElement>("Agent").value).toBe("former");
});
