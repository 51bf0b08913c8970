import type { AgentRun } from "@bollard/client";
import { screen } from "@testing-library/react";
import { afterEach, expect, it, vi } from "vitest";
import { show } from "../../../tests/surroundings";
import { RunEnding } from "./run-ending";

afterEach(() => void vi.unstubAllGlobals());

it("says in Chinese why a run failed, and quotes only the words of others", async () => {
  const error = { code: "runner.protocol", message: "worker sent a frame of 9 MiB", details: { problem_type: "host.draining" } };
  const run = { run_id: "run_1", status: "failed", error } as unknown as AgentRun;
  show(<RunEnding run={run} end={undefined} onRepeat={undefined} />, [], () => ({}), "zh");
  expect(await screen.findByText("运行失败：工作进程违反了协议：主机正在排空，不接受新任务")).toBeTruthy();
});

it("shows the message of a failed run in English as the host says it", async () => {
  const run = { run_id: "run_1", status: "failed", error: { code: "runner.error", message: "the weather is bad", details: {} } } as unknown as AgentRun;
  show(<RunEnding run={run} end={undefined} onRepeat={undefined} />, [], () => ({}));
  expect(await screen.findByText("The agent failed: The weather is bad.")).toBeTruthy();
});
