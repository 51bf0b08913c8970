import { describe, expect, it } from "vitest";
import { translator } from "@/i18n/i18n";
import { described } from "@/parts/saved-resource/described";
import { hasChinese } from "@/parts/saved-resource/field-names";
import { kinds, type KindName } from "./kinds";
import { texts } from "./texts";

const names = Object.keys(kinds) as KindName[];

describe("resources of generic pages", () => {
  it.each(names)("%s is in the OpenAPI document, with its id and a right for its list", (kind) => {
    expect(described(kind).path).toBe(`/api/v1/${kind}`);
    expect(described(kind).list.right).not.toBeNull();
  });

  it.each(names)("%s has a Chinese label for every column", (kind) => {
    expect(kinds[kind].columns.filter((name) => !hasChinese(name))).toEqual([]);
  });

  it.each(names)("%s has a title in both languages", (kind) => {
    expect(translator(texts, "en")(`${kind}.title`)).not.toContain(".title");
    expect(translator(texts, "zh")(`${kind}.title`)).not.toContain(".title");
  });
});
