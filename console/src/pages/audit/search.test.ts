import { expect, test } from "vitest";
import { auditQuery, auditSearch, isFiltered, localTime } from "./search";

test("an address holds the filters, and what is no filter is left out", () => {
  const search = auditSearch({ type: " login.failed, api.denied ", severity: "warning", run: "run_1", since: "1790000000", until: "soon", actor: "", record: 7, tab: "heads", other: "x" });
  expect(search).toEqual({ type: "login.failed, api.denied", severity: "warning", run: "run_1", since: 1_790_000_000, record: 7, tab: "heads" });
  expect(auditQuery(search)).toEqual({ type: "login.failed,api.denied", severity: "warning", run_id: "run_1", since: 1_790_000_000 });
});

test("a severity that does not exist is no filter", () => {
  expect(auditSearch({ severity: "loud", since: -1, until: 1e20 })).toEqual({});
  expect(isFiltered({ tab: "heads", record: 3 })).toBe(false);
  expect(isFiltered({ actor: "user:ann" })).toBe(true);
});

test("a time survives the way through the field", () => {
  expect(Date.parse(localTime(1_790_000_040)) / 1000).toBe(1_790_000_040);
  expect(localTime(undefined)).toBe("");
});
