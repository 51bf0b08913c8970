import type { Overview } from "@bollard/client";
import { expect, test } from "vitest";
import { askedPerHour } from "./asked";

const hours = [0, 3_600, 7_200].map((at) => ({ at }) as Overview["hours"][number]);
const asked = (...times: number[]): { requested_at: number }[] => times.map((requested_at) => ({ requested_at }));

test("each hour counts the actions that asked in it", () => {
  expect(askedPerHour(hours, { items: asked(7_300, 7_200, 3_599), has_more: false })).toEqual([1, 0, 2]);
});

test("hours before the end of an unfinished list are unknown", () => {
  expect(askedPerHour(hours, { items: asked(7_300, 3_700), has_more: true })).toEqual([null, null, 1]);
});
