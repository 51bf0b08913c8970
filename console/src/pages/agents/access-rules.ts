/** The access policy of an agent as a form edits it: permissions by family and operation, resources by kind. */
import { isFields, withField, type Fields } from "@/parts/schema-form/schema";

type Lists = Readonly<Record<string, readonly string[] | undefined>>;

function listed(value: unknown): string[] {
  return Array.isArray(value) ? value.filter((each): each is string => typeof each === "string") : [];
}

function lists(value: unknown): Record<string, string[]> {
  return isFields(value) ? Object.fromEntries(Object.entries(value).map(([name, each]) => [name, listed(each)])) : {};
}

/** The permissions that the runner asks for, and those that the policy gives although the runner does not ask. */
export function askedPermissions(asked: Lists, access: Fields): { permission: string; isAsked: boolean }[] {
  const join = (families: Lists): string[] => Object.entries(families).flatMap(([family, operations]) => (operations ?? []).map((operation) => `${family}.${operation}`));
  const known = join(asked);
  const others = join(lists(access.permissions)).filter((permission) => !known.includes(permission));
  return [...known.map((permission) => ({ permission, isAsked: true })), ...others.map((permission) => ({ permission, isAsked: false }))];
}

export function permits(access: Fields, permission: string): boolean {
  const [family = "", operation = ""] = permission.split(".");
  return lists(access.permissions)[family]?.includes(operation) ?? false;
}

export function withPermission(access: Fields, permission: string, given: boolean): Fields {
  const [family = "", operation = ""] = permission.split(".");
  const permissions = lists(access.permissions);
  const others = (permissions[family] ?? []).filter((each) => each !== operation);
  const operations = given ? [...others, operation] : others;
  const next = withField(permissions, family, operations.length === 0 ? undefined : operations);
  return withField(access, "permissions", Object.keys(next).length === 0 ? undefined : next);
}

export function addedTo(access: Fields, kind: string): string[] {
  const rule = isFields(access.resources) ? access.resources[kind] : undefined;
  return isFields(rule) ? listed(rule.add) : [];
}

/** The policy with other added resources of a kind. What limits the kind stays. */
export function withAdded(access: Fields, kind: string, added: readonly string[]): Fields {
  const resources = isFields(access.resources) ? access.resources : {};
  const rule = withField(isFields(resources[kind]) ? resources[kind] : {}, "add", added.length === 0 ? undefined : added);
  const next = withField(resources, kind, Object.keys(rule).length === 0 ? undefined : rule);
  return withField(access, "resources", Object.keys(next).length === 0 ? undefined : next);
}
