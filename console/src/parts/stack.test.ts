import { expect, test } from "vitest";
import { dataOf } from "./stack";

test("a stack covers the sums of the series below", () => {
  const series = [{ name: "done", colour: "--a" as const, values: [5, 0] }, { name: "failed", colour: "--b" as const, values: [2, null] }];
  expect(dataOf([1, 2], series, "stack")).toEqual([[1, 2], [7, 0], [2, 0]]);
  expect(dataOf([1, 2], series, "band")).toEqual([[1, 2], [5, 0], [2, null]]);
});
