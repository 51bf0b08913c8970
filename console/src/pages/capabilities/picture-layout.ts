/** Where sources, capabilities and agents stand in the picture, and which lines join them. Pure; heights are in pixels. */
import type { Offer } from "./groups";

export const ROW_PX = 30;
const GROUP_GAP_PX = 12;
/** Above this many capabilities in all, a source with more than `SMALL` is one row until a person opens it. */
const FEW = 24;
const SMALL = 8;
/** Rows of one opened source; the rest is one row. */
export const MOST_ROWS = 40;

/** A capability, or several of one source in one row. */
export interface PictureRow {
  key: string;
  source: string;
  kind: "offer" | "folded" | "rest";
  offers: readonly Offer[];
  top: number;
}

export interface PictureSource {
  key: string;
  source: string;
  count: number;
  /** Absent if the source is small and always open. */
  open: boolean | undefined;
  top: number;
}

export interface PictureAgent {
  key: string;
  id: string;
  /** How many of the capabilities in the picture it gets; absent until the host has said so. */
  count: number | undefined;
  top: number;
}

export interface PictureLine {
  from: string;
  to: string;
  y1: number;
  y2: number;
  /** The agent gets a part of the row only. */
  partial: boolean;
}

export interface Picture {
  sources: readonly PictureSource[];
  rows: readonly PictureRow[];
  agents: readonly PictureAgent[];
  /** From sources to rows, then from rows to agents. */
  branches: readonly PictureLine[];
  lines: readonly PictureLine[];
  height: number;
}

/** An agent with the ids of what it would get. */
export interface Reach {
  id: string;
  reaches: ReadonlySet<string> | undefined;
}

/** `chosen` says which sources a person opened or closed. */
export function pictureOf(groups: readonly (readonly [source: string, offers: readonly Offer[]])[], agents: readonly Reach[], chosen: ReadonlyMap<string, boolean>): Picture {
  const many = groups.reduce((sum, [, offers]) => sum + offers.length, 0) > FEW;
  const sources: PictureSource[] = [];
  const rows: PictureRow[] = [];
  const branches: PictureLine[] = [];
  let top = 0;
  for (const [source, offers] of groups) {
    const open = many && offers.length > SMALL ? chosen.get(source) ?? false : undefined;
    const own = rowsOf(source, offers, open !== false, top);
    const end = top + own.length * ROW_PX;
    const node = { key: `source ${source}`, source, count: offers.length, open, top: (top + end - ROW_PX) / 2 };
    sources.push(node);
    rows.push(...own);
    branches.push(...own.map((row) => ({ from: node.key, to: row.key, y1: centre(node), y2: centre(row), partial: false })));
    top = end + GROUP_GAP_PX;
  }
  const placed = placeAgents(agents, rows);
  const reach = new Map(agents.map(({ id, reaches }) => [id, reaches]));
  const lines = placed.flatMap((agent) => linesTo(agent, reach.get(agent.id), rows));
  return { sources, rows, agents: placed, branches, lines, height: Math.max(top - GROUP_GAP_PX, (placed.at(-1)?.top ?? 0) + ROW_PX, 0) };
}

function rowsOf(source: string, offers: readonly Offer[], open: boolean, top: number): PictureRow[] {
  if (!open) return [{ key: `row ${source}`, source, kind: "folded", offers, top }];
  const shown = offers.length > MOST_ROWS ? offers.slice(0, MOST_ROWS - 1) : offers;
  const rest = offers.slice(shown.length);
  const rows = shown.map((offer, index): PictureRow => ({ key: `row ${offer.id}`, source, kind: "offer", offers: [offer], top: top + index * ROW_PX }));
  return rest.length === 0 ? rows : [...rows, { key: `row ${source}`, source, kind: "rest", offers: rest, top: top + rows.length * ROW_PX }];
}

/** An agent stands beside the middle of what it reaches, below the agent before it; those that reach nothing come last. */
function placeAgents(agents: readonly Reach[], rows: readonly PictureRow[]): PictureAgent[] {
  const wanted = agents.map(({ id, reaches }) => {
    const reached = rows.filter((row) => row.offers.some((offer) => reaches?.has(offer.id) === true));
    const middle = reached.length === 0 ? Infinity : reached.reduce((sum, row) => sum + row.top, 0) / reached.length;
    const count = reaches === undefined ? undefined : reached.flatMap((row) => row.offers.filter((offer) => reaches.has(offer.id))).length;
    return { key: `agent ${id}`, id, count, top: middle };
  });
  let free = 0;
  return wanted.sort((one, other) => (one.top === other.top ? one.id.localeCompare(other.id) : one.top - other.top)).map((agent) => {
    const top = agent.top === Infinity ? free : Math.max(free, agent.top);
    free = top + ROW_PX + GROUP_GAP_PX / 2;
    return { ...agent, top };
  });
}

function linesTo(agent: PictureAgent, reaches: ReadonlySet<string> | undefined, rows: readonly PictureRow[]): PictureLine[] {
  return rows.flatMap((row) => {
    const reached = row.offers.filter((offer) => reaches?.has(offer.id) === true).length;
    return reached === 0 ? [] : [{ from: row.key, to: agent.key, y1: centre(row), y2: centre(agent), partial: reached < row.offers.length }];
  });
}

function centre({ top }: { top: number }): number {
  return top + ROW_PX / 2;
}

/** A node and everything that its lines lead to, on both sides. */
export function followed({ sources, rows, agents, lines }: Picture, key: string | undefined): ReadonlySet<string> {
  const found = new Set<string>();
  if (key === undefined || ![...sources, ...rows, ...agents].some((node) => node.key === key)) return found;
  const through = rows.filter((row) => row.key === key || `source ${row.source}` === key || lines.some((line) => line.to === key && line.from === row.key));
  found.add(key);
  for (const row of through) {
    found.add(row.key).add(`source ${row.source}`);
    if (!key.startsWith("agent ")) for (const line of lines) if (line.from === row.key) found.add(line.to);
  }
  return found;
}

/** Where an arrow leads: up and down within the column, left and right along a line, or to the nearest node if there is none. */
export function neighbour(picture: Picture, key: string, arrow: string): string | undefined {
  const columns: readonly (readonly { key: string; top: number }[])[] = [picture.sources, picture.rows, picture.agents];
  const at = columns.findIndex((column) => column.some((node) => node.key === key));
  const column = columns[at] ?? [];
  const index = column.findIndex((node) => node.key === key);
  if (arrow === "ArrowDown" || arrow === "ArrowUp") return column[index + (arrow === "ArrowDown" ? 1 : -1)]?.key;
  if (arrow === "Home" || arrow === "End") return column.at(arrow === "Home" ? 0 : -1)?.key;
  if (arrow !== "ArrowRight" && arrow !== "ArrowLeft") return undefined;
  const side = columns[at + (arrow === "ArrowRight" ? 1 : -1)] ?? [];
  const joined = followed(picture, key);
  const top = column[index]?.top ?? 0;
  const near = (nodes: readonly { key: string; top: number }[]): string | undefined => [...nodes].sort((one, other) => Math.abs(one.top - top) - Math.abs(other.top - top))[0]?.key;
  return near(side.filter((node) => joined.has(node.key))) ?? near(side);
}
