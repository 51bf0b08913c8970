/** JSON Schemas of request bodies, as the host describes them, and the values that a form edits. */
import { Validator, type Schema as ValidatorSchema } from "@cfworker/json-schema";

export interface Schema {
  type?: string;
  enum?: readonly string[];
  const?: unknown;
  properties?: Record<string, Schema>;
  required?: readonly string[];
  items?: Schema;
  anyOf?: readonly Schema[];
  additionalProperties?: boolean | Schema;
  default?: unknown;
  description?: string;
  nullable?: boolean;
  minimum?: number;
  maximum?: number;
  minLength?: number;
  maxLength?: number;
  pattern?: string;
  format?: string;
}
export type Value = unknown;
export type Fields = Readonly<Record<string, Value>>;

export type ControlKind = "text" | "long-text" | "password" | "number" | "flag" | "choice" | "texts" | "choices" | "object" | "json";

const LONG = 500;

/** Which control edits a value of this schema. What no control fits is edited as JSON. */
export function controlOf(schema: Schema): ControlKind {
  if (schema.format === "password") return "password";
  if (schema.enum !== undefined) return "choice";
  switch (schema.type) {
    case "string":
      return schema.maxLength === undefined || schema.maxLength < LONG ? "text" : "long-text";
    case "integer":
    case "number":
      return "number";
    case "boolean":
      return "flag";
    case "array":
      if (schema.items?.enum !== undefined) return "choices";
      return schema.items?.type === "string" ? "texts" : "json";
    case "object":
      return schema.properties !== undefined && Object.keys(schema.properties).length > 0 ? "object" : "json";
    default:
      return "json";
  }
}

/** The schema of a field that names other resources: one of them, or several. A chosen one that is gone stays a choice. */
export function withChoices(schema: Schema, offered: readonly string[], value: Value): Schema {
  const chosen = (Array.isArray(value) ? value : [value]).filter((each): each is string => typeof each === "string" && each !== "" && !offered.includes(each));
  const all = [...offered, ...chosen];
  return schema.type === "array" ? { ...schema, items: { ...schema.items, enum: all } } : { ...schema, enum: all };
}

/** A copy with one field set. `undefined` removes it, so that the host uses its default. */
export function withField(fields: Fields, name: string, value: Value): Fields {
  const others = Object.entries(fields).filter(([each]) => each !== name);
  return Object.fromEntries(value === undefined ? others : [...others, [name, value]]);
}

/** The first problem of a value that a person typed as JSON, with its place; `undefined` if it fits the schema. */
export function problemOf(value: Value, schema: Schema): string | undefined {
  const validator = new Validator(schema as ValidatorSchema, "2020-12", false);
  const { valid, errors } = validator.validate(value);
  const last = errors.at(-1);
  return valid || last === undefined ? undefined : `${last.instanceLocation.replace(/^#/, "") || "/"}: ${last.error}`;
}

export function isFields(value: Value): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** `max_message_size` → `Max message size`. */
export function humanised(name: string): string {
  const words = name.replaceAll("_", " ").trim();
  return words.charAt(0).toUpperCase() + words.slice(1);
}
