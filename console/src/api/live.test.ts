import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { STALE, staleKeys } from "./live";

interface Description {
  paths: Record<string, { get: { parameters: { name?: string; description?: string }[] } }>;
}

/** The types that the stream of changes sends, as the API describes them. */
function sentTypes(): string[] {
  const api = JSON.parse(readFileSync(join(import.meta.dirname, "../../../docs/reference/openapi.json"), "utf8")) as Description;
  const types = api.paths["/api/v1/changes/stream"]?.get.parameters.find(({ name }) => name === "types")?.description ?? "";
  return types.match(/[a-z]+\.[a-z]+/g) ?? [];
}

describe("staleKeys", () => {
  it("has queries for every type that the host sends", () => {
    expect(sentTypes()).toContain("run.ended");
    expect(sentTypes().filter((type) => staleKeys(type).length === 0)).toEqual([]);
  });

  it("waits for no type that the host never sends", () => {
    expect(STALE.map(([prefix]) => prefix).filter((prefix) => !sentTypes().some((type) => type.startsWith(prefix)))).toEqual([]);
  });
});
