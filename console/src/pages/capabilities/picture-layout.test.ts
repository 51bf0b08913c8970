import { describe, expect, test } from "vitest";
import type { Offer } from "./groups";
import { followed, MOST_ROWS, neighbour, pictureOf, type Picture, type Reach } from "./picture-layout";

const offers = (source: string, count: number): [string, Offer[]] => [source, Array.from({ length: count }, (_, index) => ({ id: `${source}/${index}`, name: `${source}${index}`, source }))];
const agent = (id: string, ...reaches: string[]): Reach => ({ id, reaches: new Set(reaches) });
const small = (): Picture => pictureOf([offers("a", 2), offers("b", 1)], [agent("idle"), agent("clerk", "b/0"), agent("all", "a/0", "a/1", "b/0")], new Map());
const keys = (nodes: readonly { key: string }[]): string[] => nodes.map((node) => node.key);

describe("the picture of capabilities", () => {
  test("rows stand below each other by source, and a source beside the middle of its rows", () => {
    const picture = small();
    expect(picture.rows.map((row) => [row.key, row.top])).toEqual([["row a/0", 0], ["row a/1", 30], ["row b/0", 72]]);
    expect(picture.sources.map((source) => [source.key, source.count, source.top])).toEqual([["source a", 2, 15], ["source b", 1, 72]]);
    expect(picture.height).toBe(138); // the last agent
  });

  test("a line joins an agent with each capability that it gets, and with no other", () => {
    const { lines, agents } = small();
    expect(lines.map(({ from, to }) => `${from} → ${to}`)).toEqual(["row a/0 → agent all", "row a/1 → agent all", "row b/0 → agent all", "row b/0 → agent clerk"]);
    expect(agents.map(({ id, count }) => [id, count])).toEqual([["all", 3], ["clerk", 1], ["idle", 0]]);
  });

  test("agents do not cover each other", () => {
    const tops = pictureOf([offers("a", 1)], Array.from({ length: 5 }, (_, index) => agent(`a${index}`, "a/0")), new Map()).agents.map((each) => each.top);
    expect(tops.slice(1).every((top, index) => top - (tops[index] ?? 0) >= 30)).toBe(true);
  });

  test("among many capabilities a long source is one row until it is opened, and then has a last row for the rest", () => {
    const groups = [offers("long", 500), offers("short", 3)];
    const agents = [agent("clerk", "long/7")];
    const folded = pictureOf(groups, agents, new Map());
    expect(folded.rows.map((row) => row.kind)).toEqual(["folded", "offer", "offer", "offer"]);
    expect(folded.lines).toMatchObject([{ from: "row long", to: "agent clerk", partial: true }]);
    const opened = pictureOf(groups, agents, new Map([["long", true]]));
    expect(opened.rows).toHaveLength(MOST_ROWS + 3);
    expect(opened.rows[MOST_ROWS - 1]).toMatchObject({ kind: "rest", source: "long" });
    expect(opened.rows[MOST_ROWS - 1]?.offers).toHaveLength(500 - MOST_ROWS + 1);
    expect(opened.lines).toMatchObject([{ from: "row long/7", to: "agent clerk", partial: false }]);
  });

  test("an agent of which nothing is known yet has no line and no count", () => {
    const picture = pictureOf([offers("a", 1)], [{ id: "clerk", reaches: undefined }], new Map());
    expect(picture.lines).toEqual([]);
    expect(picture.agents[0]?.count).toBeUndefined();
  });
});

describe("following a node", () => {
  test("leads through its lines to both sides, and not back to others", () => {
    const picture = small();
    expect([...followed(picture, "agent clerk")].sort()).toEqual(["agent clerk", "row b/0", "source b"]);
    expect([...followed(picture, "source a")].sort()).toEqual(["agent all", "row a/0", "row a/1", "source a"]);
    expect([...followed(picture, "row b/0")].sort()).toEqual(["agent all", "agent clerk", "row b/0", "source b"]);
    expect(followed(picture, "agent gone").size).toBe(0);
  });

  test("arrows move within a column and along lines", () => {
    const picture = small();
    expect(neighbour(picture, "row a/0", "ArrowDown")).toBe("row a/1");
    expect(neighbour(picture, "row a/0", "ArrowUp")).toBeUndefined();
    expect(neighbour(picture, "row a/1", "ArrowLeft")).toBe("source a");
    expect(neighbour(picture, "row a/1", "ArrowRight")).toBe("agent all");
    expect(neighbour(picture, "agent clerk", "ArrowLeft")).toBe("row b/0");
    expect(neighbour(picture, "agent idle", "ArrowLeft")).toBe("row b/0"); // the nearest: it has no line
    expect(neighbour(picture, "agent all", "End")).toBe(keys(picture.agents).at(-1));
    expect(neighbour(picture, "agent all", "x")).toBeUndefined();
  });
});
