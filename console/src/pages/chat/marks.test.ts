import { expect, it } from "vitest";
import { isUnread, keyOf, withoutPin, withPin, withRead, type Marks } from "./marks";

const fresh: Marks = { since: 100, pins: [], read: {} };
const place = { conversation: "a" };
const pin = { place, title: "A", at: 1 };

it("counts what is older than the browser's first visit as read", () => {
  expect([isUnread(fresh, place, 99), isUnread(fresh, place, 101)]).toEqual([false, true]);
});

it("is read up to the newest message that was seen, each thread by itself", () => {
  const seen = withRead(fresh, place, 200);
  expect([isUnread(seen, place, 200), isUnread(seen, place, 201), isUnread(seen, { ...place, thread: "t" }, 200)]).toEqual([false, true, true]);
  expect(withRead(seen, place, 150)).toBe(seen);
});

it("forgets the oldest of many conversations without making them unread", () => {
  let marks = fresh;
  for (let number = 1; number <= 600; number += 1) marks = withRead(marks, { conversation: `c${number}` }, 100 + number);
  expect(Object.keys(marks.read)).toHaveLength(500);
  expect(isUnread(marks, { conversation: "c1" }, 101)).toBe(false);
  expect(isUnread(marks, { conversation: "c1" }, 900)).toBe(true);
});

it("pins a conversation once, in the order of pinning, and unpins it", () => {
  const two = withPin(withPin(fresh, pin), { place: { conversation: "b" }, title: "B", at: 2 });
  expect(withPin(two, pin).pins.map((each) => keyOf(each.place))).toEqual([keyOf(place), keyOf({ conversation: "b" })]);
  expect(withoutPin(two, place).pins.map((each) => each.title)).toEqual(["B"]);
});
