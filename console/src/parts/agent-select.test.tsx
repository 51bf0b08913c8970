import { screen } from "@testing-library/react";
import { expect, it, vi } from "vitest";
import { Field } from "@/ui/field";
import { show } from "../../tests/surroundings";
import { AgentSelect } from "./agent-select";

const page = (has_more: boolean) => ({ items: Array.from({ length: 100 }, (_, at) => ({ agent_id: `agent-${at}` })), has_more, ...(has_more ? { next_cursor: "next" } : {}) });
const select = <Field label="Agent">{(ids) => <AgentSelect ids={ids} value="former" onChange={vi.fn()} />}</Field>;

it("says that a list is longer than what it offers", async () => {
  const asked = show(select, ["agents.read"], () => page(true));
  expect((await screen.findByRole("note")).textContent).toContain("Only the first 2,000 entries are listed here.");
  expect(asked).toHaveLength(20);
});

it("offers a whole list without a word, and keeps an agent that is gone", async () => {
  show(select, ["agents.read"], () => page(false), "zh");
  await screen.findByRole("option", { name: "agent-99" });
  expect(screen.getByRole<HTMLSelectElement>("combobox", { name: "Agent" }).value).toBe("former");
  expect(screen.queryByRole("note")).toBeNull();
});
