import { screen, waitFor } from "@testing-library/react";
import { afterEach, expect, it, vi } from "vitest";
import { show } from "../../../tests/surroundings";
import { ServerProblem } from "./server-state";

afterEach(() => vi.unstubAllGlobals());
const details = { problem_type: "mcp.no_login", server: "github" };

it("says why a server is not connected, and what to do, in the words of the reader", async () => {
  show(<ServerProblem server="github" problem="nobody has logged in" details={details} hint="log in with `bollard mcp login github`" />, ["mcp.read"], () => ({}), "zh");
  await waitFor(() => expect(screen.getByRole("alert").textContent).toBe("还没有人登录请用 `bollard mcp login github` 登录"));
});

it("shows a problem of another program as it is, as a sentence", async () => {
  show(<ServerProblem problem="spawn ENOENT <b>" details={{}} hint="" />, ["mcp.read"], () => ({}));
  expect((await screen.findByRole("alert")).textContent).toBe("Spawn ENOENT <b>.");
});
