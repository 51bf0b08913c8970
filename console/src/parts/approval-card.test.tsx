import type { Approval } from "@bollard/client";
import { fireEvent, screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { afterEach, expect, it, vi } from "vitest";
import { show, type Asked } from "../../tests/surroundings";
import { ApprovalCard } from "./approval-card";

const REQUEST: Approval = {
  approval_id: "apr_1", run_id: "run_1", call_id: "c", agent_id: "desk", capability: "tool:builtin/exec", name: "exec", risk: "high", status: "requested",
  digest: "d".repeat(64), requested_at: Date.now() / 1000, expires_at: Date.now() / 1000 + 900,
  display: {
    lines: [
      { part: "about", place: "agent", label: "agent", text: "desk" },
      { part: "arguments", place: "arguments.command", label: "arguments", text: '"rm -rf ⟪U+202E⟫  <b>x</b>"', notes: ["hidden"] },
      { part: "explanation", place: "explanation", label: "explanation", text: "Waiting for you: allow" },
    ],
    attached: [],
  },
};
afterEach(() => vi.unstubAllGlobals());

async function card(approval: Approval = REQUEST, rights: Parameters<typeof show>[1] = ["approvals.read", "approvals.decide"]): Promise<{ box: HTMLElement; requests: Asked[] }> {
  const requests = show(<ApprovalCard approvalId="apr_1" />, rights, ({ method }) => (method === "POST" ? { ...approval, status: "granted" } : approval));
  const box = await screen.findByRole("region", { name: "exec" });
  if (rights.includes("approvals.decide") && approval.status === "requested" && approval.refusal === undefined) await waitFor(() => expect(within(box).getByRole("button", { name: "Deny" }).hasAttribute("disabled")).toBe(false), { timeout: 2_000 });
  return { box, requests };
}
const decisions = (requests: readonly Asked[]): unknown[] => requests.filter(({ method }) => method === "POST").map(({ body }) => (body as { decision: string }).decision);

it("shows the text of the host byte for byte, and names what is hidden", async () => {
  const { box } = await card();
  expect(within(box).getByText((_, element) => element?.tagName === "CODE" && element.textContent === '"rm -rf ⟪U+202E⟫  <b>x</b>"')).toBeDefined();
  expect(within(box).getByText(/invisible characters/)).toBeDefined();
  expect(box.querySelector("b")).toBeNull();
});

it("decides with Enter only while the card itself has the focus, and once", async () => {
  const { box, requests } = await card();
  fireEvent.keyDown(document.body, { key: "Enter" });
  fireEvent.keyDown(box, { key: "Enter", repeat: true });
  fireEvent.keyDown(box, { key: "Enter", ctrlKey: true });
  expect(decisions(requests)).toEqual([]);
  fireEvent.keyDown(box, { key: "Enter" });
  fireEvent.keyDown(box, { key: "Enter" });
  fireEvent.keyDown(box, { key: "Backspace" });
  await waitFor(() => expect(decisions(requests)).toEqual(["allow_once"]));
  expect(requests.find(({ method }) => method === "POST")?.body).toEqual({ decision: "allow_once", digest: REQUEST.digest });
});

it("denies with Backspace", async () => {
  const { box, requests } = await card();
  fireEvent.keyDown(box, { key: "Backspace" });
  await waitFor(() => expect(decisions(requests)).toEqual(["deny"]));
});

it("ignores the second click of a double click", async () => {
  const { box, requests } = await card();
  fireEvent.click(within(box).getByRole("button", { name: "Allow once" }), { detail: 2 });
  expect(decisions(requests)).toEqual([]);
  await userEvent.click(within(box).getByRole("button", { name: "Allow for this run" }));
  await waitFor(() => expect(decisions(requests)).toEqual(["allow_run"]));
});

it("allows attached content only after it was opened", async () => {
  const attached = [{ number: 1, place: "arguments.text", characters: 9000, bytes: 9000, sha256: "a" }];
  const approval = { ...REQUEST, display: { ...REQUEST.display, attached } };
  const requests = show(<ApprovalCard approvalId="apr_1" />, ["approvals.decide"], ({ path, method }) => (path.includes("/contents/") ? { lines: ["one", "two"], first: 0, total: 2, content: attached[0] } : method === "POST" ? { ...approval, status: "granted" } : approval));
  const box = await screen.findByRole("region", { name: "exec" });
  fireEvent.keyDown(box, { key: "Enter" });
  await userEvent.click(within(box).getByRole("button", { name: "Open" }));
  await waitFor(() => expect(within(box).getByRole("button", { name: "Allow once" }).hasAttribute("disabled")).toBe(false), { timeout: 2_000 });
  await userEvent.click(within(box).getByRole("button", { name: "Allow once" }));
  await waitFor(() => expect(requests.find(({ method }) => method === "POST")?.body).toEqual({ decision: "allow_once", digest: REQUEST.digest, inspected: true }));
  expect(decisions(requests)).toHaveLength(1);
});

it("shows no buttons to a person who may not decide, and says why", async () => {
  const { box } = await card({ ...REQUEST, refusal: { code: "unauthorized", message: "another person has to approve this", hint: "ask an approver", details: {} } });
  expect(within(box).queryByRole("button", { name: /Allow/ })).toBeNull();
  expect(within(box).getByText(/Another person has to approve this/)).toBeDefined();
});

it("shows no buttons without the right", async () => {
  const { box } = await card(REQUEST, ["approvals.read"]);
  expect(within(box).queryByRole("button", { name: /Allow/ })).toBeNull();
});
