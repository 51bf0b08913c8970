import type { AgentRunRecord } from "@bollard/client";
import { fireEvent, render, screen, within } from "@testing-library/react";
import { useState, type ReactNode } from "react";
import { beforeEach, describe, expect, test, vi } from "vitest";
import { LanguageProvider, type Language } from "@/i18n/i18n";
import { makeSpan, type Span } from "./span";
import { timelineOf } from "./timeline";
import { Waterfall } from "./waterfall";

beforeEach(() => {
  // jsdom has no layout: without a height the list would show no row
  vi.spyOn(Element.prototype, "clientHeight", "get").mockReturnValue(800);
  Element.prototype.scrollTo = () => undefined; // nor has it scrolling
});

function draw(spans: readonly Span[], from: number, until: number, language: Language = "en"): void {
  function Shown(): ReactNode {
    const [selected, select] = useState<string>();
    return <Waterfall spans={spans} version={1} from={from} until={until} nameOf={(span) => span.name} selected={selected} onSelect={select} />;
  }
  render(<LanguageProvider initial={language}><Shown /></LanguageProvider>);
}
const rows = (): HTMLElement[] => screen.getAllByRole("treeitem");
const names = (): (string | null)[] => rows().map((row) => row.getAttribute("aria-label"));
/** The bar of a row: its place on the axis and its colour. */
function bar(name: string): { at: string; width: string; className: string } {
  const found = screen.getByRole("treeitem", { name }).querySelector<HTMLElement>("[style*='width']");
  if (found === null) throw new Error(`${name} has no bar`);
  return { at: found.style.getPropertyValue("--at"), width: found.style.width, className: found.className };
}
let seq = 0;
function record(type: string, data: AgentRunRecord["data"], at: number): AgentRunRecord {
  seq += 1;
  return { run_id: "run_1", seq, epoch: 1, type, data, observed: true, created_at: at };
}

/** A call of a model, a tool with its consent inside, and an answer, in ten seconds. */
function work(): Span {
  const { run } = timelineOf([
    record("run.created", { binding_id: "direct:clerk" }, 100),
    record("run.started", {}, 101),
    record("model.called", { model_id: "big", status: "completed", latency_ms: 2_000 }, 103),
    record("approval.requested", { approval_id: "apr_1", call_id: "c1", name: "send_letter", arguments: {} }, 103),
    record("approval.granted", { approval_id: "apr_1", call_id: "c1", decision: "allow_once", by: "ann" }, 106),
    record("action.started", { call_id: "c1", name: "send_letter", kind: "mcp" }, 106),
    record("action.failed", { call_id: "c1", capability: "mcp:letters/send_letter" }, 108),
    record("message.delta", { chunk: { role: "assistant", content: "so" } }, 108),
    record("message.completed", { message: { role: "assistant", content: "sorry" } }, 109.5),
    record("run.ended", { status: "completed" }, 110),
  ]);
  return run;
}

describe("the tree", () => {
  test("steps stand in the order in which they began, each below what it belongs to", () => {
    draw([makeSpan("event", "event", "ann: hello", 100), work()], 100, 110);
    expect(rows().map((row) => [row.getAttribute("aria-label"), row.getAttribute("aria-level"), `${row.getAttribute("aria-posinset") ?? ""} of ${row.getAttribute("aria-setsize") ?? ""}`])).toEqual([
      ["Event ann: hello, done", "1", "1 of 2"],
      ["Run , done", "1", "2 of 2"],
      ["Route direct:clerk, done", "2", "1 of 6"],
      ["Start , done", "2", "2 of 6"],
      ["Model big, done", "2", "3 of 6"],
      ["Tool send_letter, failed", "2", "4 of 6"],
      ["Approval send_letter, done", "3", "1 of 1"],
      ["Message assistant, done", "2", "5 of 6"],
      ["End , done", "2", "6 of 6"],
    ]);
    const tops = rows().map((row) => row.style.transform);
    expect(tops).toEqual(tops.map((_, index) => `translateY(${index * 32}px)`));
  });

  test("arrows select, close and open steps", () => {
    draw([work()], 100, 110);
    const tree = screen.getByRole("tree");
    fireEvent.keyDown(tree, { key: "Home" });
    expect(tree.getAttribute("aria-activedescendant")).toBe("step-run");
    for (let step = 0; step < 4; step += 1) fireEvent.keyDown(tree, { key: "ArrowDown" });
    expect(screen.getByRole("treeitem", { name: "Tool send_letter, failed", selected: true }).getAttribute("aria-expanded")).toBe("true");
    fireEvent.keyDown(tree, { key: "ArrowLeft" });
    expect(names()).not.toContain("Approval send_letter, done");
    fireEvent.keyDown(tree, { key: "ArrowRight" });
    fireEvent.keyDown(tree, { key: "ArrowDown" });
    expect(screen.getByRole("treeitem", { name: "Approval send_letter, done" }).getAttribute("aria-selected")).toBe("true");
  });

  test("a fallback names what it replaces, and Chinese readers read Chinese", () => {
    draw([makeSpan("m", "model", "small", 1, { fallbackOf: "big", state: "failed" })], 0, 2, "zh");
    expect(names()).toEqual(["模型 small (替代 big), 失败"]);
  });
});

describe("the bars", () => {
  test("a bar begins and ends where its step does on the axis", () => {
    draw([work()], 100, 110);
    expect(bar("Run , done")).toMatchObject({ at: "0%", width: "100%" });
    expect(bar("Model big, done")).toMatchObject({ at: "10%", width: "20%" });
    expect(bar("Approval send_letter, done")).toMatchObject({ at: "30%", width: "30%" });
    expect(bar("Message assistant, done")).toMatchObject({ at: "80%", width: "15%" });
    expect(bar("End , done")).toMatchObject({ at: "100%", width: "0%" });
  });

  test("a step that goes on reaches the end of the axis, and time outside of the axis is cut off", () => {
    draw([makeSpan("a", "tool", "long", 5, { end: undefined, state: "open" }), makeSpan("b", "tool", "early", -10, { end: 20 })], 0, 10);
    expect(bar("Tool long, goes on")).toMatchObject({ at: "50%", width: "50%" });
    expect(bar("Tool early, done")).toMatchObject({ at: "0%", width: "100%" });
  });

  test("failures and waits have colours of their own, and a step shows how long it took", () => {
    draw([work()], 100, 110);
    expect(bar("Tool send_letter, failed").className).toContain("bg-fail");
    expect(bar("Approval send_letter, done").className).toContain("bg-wait-line");
    expect(bar("Message assistant, done").className).not.toContain("bg-fail");
    expect(within(screen.getByRole("treeitem", { name: "Approval send_letter, done" })).getByText("3 sec")).toBeDefined();
  });
});
