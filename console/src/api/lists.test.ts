import { describe, expect, it } from "vitest";
import { allPages, LISTED_ITEMS } from "./lists";

/** A host with this many items, in pages as large as it is asked for. It remembers where each page begins. */
class Pages {
  readonly begins: number[] = [];
  constructor(private readonly items: number) {}

  ask = ({ query }: { query: { limit: number; cursor?: string } }): Promise<{ items: number[]; next_cursor?: string }> => {
    const begin = Number(query.cursor ?? 0);
    const end = Math.min(this.items, begin + query.limit);
    this.begins.push(begin);
    return Promise.resolve({ items: Array.from({ length: end - begin }, (_, at) => begin + at), ...(end < this.items ? { next_cursor: String(end) } : {}) });
  };
}

describe("allPages", () => {
  it("reads every page, in order, and stops after the last", async () => {
    const pages = new Pages(201);
    const { items, isWhole } = await allPages(pages.ask);
    expect(items).toEqual(Array.from({ length: 201 }, (_, at) => at));
    expect(isWhole).toBe(true);
    expect(pages.begins).toEqual([0, 100, 200]);
  });

  it("holds a list of exactly the limit whole", async () => {
    expect(await allPages(new Pages(LISTED_ITEMS).ask)).toMatchObject({ isWhole: true });
  });

  it("stops at the limit and says that there is more", async () => {
    const pages = new Pages(LISTED_ITEMS + 1);
    const { items, isWhole } = await allPages(pages.ask);
    expect(items).toHaveLength(LISTED_ITEMS);
    expect(isWhole).toBe(false);
    expect(pages.begins).toHaveLength(LISTED_ITEMS / 100);
  });

  it("reads an empty list with one request", async () => {
    const pages = new Pages(0);
    expect(await allPages(pages.ask)).toEqual({ items: [], isWhole: true });
    expect(pages.begins).toEqual([0]);
  });
});
