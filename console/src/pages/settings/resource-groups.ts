/** The lists that the settings lead to, by group, each with the right without which it is not shown. */
import type { Right } from "@/api/session";

type Kind = "users" | "keys" | "workspaces" | "actors" | "secrets" | "files" | "skills" | "conversations" | "channels" | "bots" | "subscriptions" | "runtimes";

export const resourceGroups: readonly { name: "people" | "things" | "links"; kinds: readonly (readonly [Kind, Right])[] }[] = [
  { name: "people", kinds: [["users", "users.read"], ["keys", "keys.read"], ["actors", "users.read"], ["workspaces", "workspaces.read"]] },
  { name: "things", kinds: [["secrets", "secrets.read"], ["files", "files.read"], ["skills", "skills.read"], ["conversations", "conversations.read"]] },
  { name: "links", kinds: [["channels", "channels.read"], ["bots", "channels.read"], ["subscriptions", "subscriptions.read"], ["runtimes", "plugins.read"]] },
];
