// The saved resources of the OpenAPI document for the generic pages: paths, rights, ids, and the schema of each body.
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const document = JSON.parse(readFileSync(new URL("../../docs/reference/openapi.json", import.meta.url), "utf8"));
const schemas = document.components.schemas;

const resolve = (schema) => ("$ref" in schema ? { ...resolve(schemas[schema.$ref.split("/").at(-1)]), ...without(schema, "$ref") } : schema);
const without = (object, ...keys) => Object.fromEntries(Object.entries(object).filter(([key]) => !keys.includes(key)));

/** The schema without references. `null` as an alternative becomes `nullable`. A recursive schema stays open. */
function plain(schema, depth = 0) {
  if (depth > 6) return {};
  const whole = resolve(schema);
  const choices = whole.anyOf?.map((choice) => plain(choice, depth + 1));
  if (choices !== undefined) {
    const real = choices.filter((choice) => choice.type !== "null");
    const rest = without(whole, "anyOf");
    const nullable = real.length < choices.length;
    return real.length === 1 ? { ...real[0], ...rest, ...(nullable ? { nullable } : {}) } : { ...rest, anyOf: real, ...(nullable ? { nullable } : {}) };
  }
  const result = without(whole, "title", "examples", "example");
  if (result.properties !== undefined) {
    result.properties = Object.fromEntries(Object.entries(result.properties).map(([name, each]) => [name, plain(each, depth + 1)]));
  }
  if (result.items !== undefined && typeof result.items === "object") result.items = plain(result.items, depth + 1);
  if (typeof result.additionalProperties === "object") result.additionalProperties = plain(result.additionalProperties, depth + 1);
  return result;
}

const operation = (item, method) => item?.[method] && { right: item[method]["x-bollard-right"] ?? null };
const body = (item, method) => {
  const content = item?.[method]?.requestBody?.content?.["application/json"];
  return content === undefined ? undefined : plain(content.schema);
};

const kinds = {};
for (const [path, item] of Object.entries(document.paths)) {
  const one = Object.keys(document.paths).find((other) => new RegExp(`^${path}/\\{\\w+\\}$`).test(other));
  if (!path.startsWith("/api/v1/") || path.split("/").length !== 4 || item.get === undefined || one === undefined) continue;
  const single = document.paths[one];
  const page = resolve(item.get.responses["200"]?.content?.["application/json"]?.schema ?? {});
  if (page.properties?.items === undefined) continue;
  kinds[path.slice("/api/v1/".length)] = {
    path,
    id: one.slice(one.indexOf("{") + 1, -1),
    list: operation(item, "get"),
    create: operation(item, "post"),
    save: operation(single, "put"),
    delete: operation(single, "delete"),
    body: body(single, "put") ?? body(item, "post"),
  };
}
const out = fileURLToPath(new URL("../src/parts/saved-resource/generated/", import.meta.url));
mkdirSync(out, { recursive: true });
writeFileSync(`${out}kinds.json`, JSON.stringify(kinds));
