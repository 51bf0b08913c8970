import { screen, waitFor } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { afterEach, expect, it, vi } from "vitest";
import { show } from "../../tests/surroundings";
import { QuestionCard, type AskedQuestion } from "./question-card";

const asked: AskedQuestion = { runId: "run_1", questionId: "q_1", question: "Which <b>one</b>?", choices: ["red", "blue"], askedAt: 0, status: "asked" };
afterEach(() => vi.unstubAllGlobals());

it("sends the choice, once", async () => {
  const requests = show(<QuestionCard asked={asked} />, ["runs.control"], () => ({}));
  const blue = await screen.findByRole("button", { name: "blue" });
  await userEvent.dblClick(blue);
  await waitFor(() => expect(requests).toEqual([{ method: "POST", path: "/api/v1/runs/run_1/questions/q_1/answer", body: { answer: "blue" } }]));
  expect(screen.getByText("Which <b>one</b>?")).toBeDefined();
});

it("sends a text, and shows why it was refused", async () => {
  const refusal = { error: { code: "conflict", message: "the question was answered", details: {} } };
  show(<QuestionCard asked={{ ...asked, choices: [] }} />, ["runs.control"], () => Response.json(refusal, { status: 409 }));
  await userEvent.type(await screen.findByRole("textbox", { name: "Your answer" }), "green{Enter}");
  expect((await screen.findByRole("alert")).textContent).toContain("The question was answered");
});

it("has no answer for a person who may only read", async () => {
  show(<QuestionCard asked={asked} />, ["runs.read"], () => ({}));
  await screen.findByText("Which <b>one</b>?");
  expect(screen.queryByRole("button")).toBeNull();
});
