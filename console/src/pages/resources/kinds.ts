/** The saved resources that have a page without code of their own: what the page shows of each. */
export type KindName = "bots" | "channels" | "secrets" | "files" | "skills" | "users" | "keys" | "workspaces" | "actors" | "runtimes" | "subscriptions" | "conversations";

export interface Kind {
  /** The columns of the list, by field. The first one opens the resource. */
  columns: readonly string[];
  /** Fields of the form that people do not set. */
  hidden?: readonly string[];
  /** A field of the answer to a save that is shown once. */
  shownOnce?: string;
  /** The resource is a file that a person picks. */
  isFile?: boolean;
  /** The command that does the same. */
  command: string;
}

export const kinds: Record<KindName, Kind> = {
  channels: { columns: ["channel_id", "kind", "enabled", "url", "bot"], hidden: ["revision", "channel_id"], shownOnce: "secret", command: "bollard channels save -" },
  bots: { columns: ["bot_id", "agent_id", "channels"], hidden: ["revision", "bot_id"], command: "bollard bots save -" },
  secrets: { columns: ["secret_name", "readable", "set_at", "set_by"], hidden: ["revision"], command: "bollard secrets set NAME" },
  files: { columns: ["name", "mime_type", "size_bytes", "created_at", "created_by"], isFile: true, command: "bollard files add FILE" },
  skills: { columns: ["skill_id", "description", "source", "usable"], hidden: ["revision", "skill_id"], command: "bollard skills add FOLDER" },
  users: { columns: ["user_id", "role", "name", "disabled"], hidden: ["revision", "user_id"], command: "bollard users add NAME --role member" },
  keys: { columns: ["name", "rights", "made_by", "created_at", "expires_at"], shownOnce: "token", command: "bollard keys add --name NAME --right runs.create" },
  workspaces: { columns: ["workspace_id", "name"], hidden: ["revision", "workspace_id"], command: "bollard workspaces add NAME" },
  actors: { columns: ["actor", "user_id"], command: "bollard users link TYPE:ID USER" },
  runtimes: { columns: ["runtime_id", "status", "enabled", "enrolled_at"], shownOnce: "code", command: "bollard runtimes enroll NAME" },
  subscriptions: { columns: ["subscription_id", "url", "types", "enabled"], hidden: ["revision", "subscription_id", "problem"], shownOnce: "secret", command: "bollard subscriptions save -" },
  conversations: { columns: ["conversation_id", "title", "last_message_at", "thread_id", "bot_id"], command: "bollard conversations list" },
};

export function isKind(name: string): name is KindName {
  return name in kinds;
}
