/** Whole lists of the workspace, page by page, for tables and for fields that choose one of their items. */
import {
  listAgents, listBindings, listBots, listCapabilities, listFiles, listHooks, listKnowledgeBases, listMcpServers, listModels, listPlugins, listRunners,
  listSchedules, listSkills, listUsers,
} from "@bollard/client";
import { POLLED } from "./queries";

/** The largest page that the host gives. */
const PAGE_ITEMS = 100;
/** Items of one list that a page holds. A list with more says so (`ListLimit`). */
export const LISTED_ITEMS = 2_000;

interface PageRequest {
  query: { limit: number; cursor?: string };
}
interface ListPage<T> {
  items: readonly T[];
  next_cursor?: string;
}
export interface Listing<T> {
  items: readonly T[];
  /** False if the host has more items than `LISTED_ITEMS`. */
  isWhole: boolean;
}

export async function allPages<T>(ask: (request: PageRequest) => Promise<ListPage<T>>): Promise<Listing<T>> {
  const items: T[] = [];
  for (let cursor: string | undefined; items.length < LISTED_ITEMS; ) {
    const page = await ask({ query: { limit: PAGE_ITEMS, ...(cursor === undefined ? {} : { cursor }) } });
    items.push(...page.items);
    cursor = page.next_cursor;
    if (cursor === undefined) return { items, isWhole: true };
  }
  return { items: items.slice(0, LISTED_ITEMS), isWhole: false };
}

function listed<T>(noun: string, ask: (request: PageRequest) => Promise<ListPage<T>>) {
  return { queryKey: [noun, "all"], queryFn: () => allPages(ask), meta: POLLED };
}

/** The queries of whole lists, for `useQuery`. */
export const lists = {
  agents: listed("agents", (page) => listAgents(page)),
  bindings: listed("bindings", (page) => listBindings(page)),
  bots: listed("bots", (page) => listBots(page)),
  capabilities: listed("capabilities", (page) => listCapabilities(page)),
  files: listed("files", (page) => listFiles(page)),
  hooks: listed("hooks", (page) => listHooks(page)),
  knowledge: listed("knowledge", (page) => listKnowledgeBases(page)),
  mcpServers: listed("mcp-servers", (page) => listMcpServers(page)),
  models: listed("models", (page) => listModels(page)),
  plugins: listed("plugins", (page) => listPlugins(page)),
  runners: listed("runners", (page) => listRunners(page)),
  schedules: listed("schedules", (page) => listSchedules(page)),
  skills: listed("skills", (page) => listSkills(page)),
  users: listed("users", (page) => listUsers(page)),
};
