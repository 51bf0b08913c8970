/** Reads the text files that a person picked as a skill. */
export interface SkillFile {
  path: string;
  text: string;
}

/** Paths start below the picked folder. What is not UTF-8 text is named instead of read. */
export async function skillFiles(picked: readonly File[]): Promise<{ files: SkillFile[]; unread: string[] }> {
  const read = await Promise.all(
    picked.map(async (file) => {
      const path = file.webkitRelativePath.split("/").slice(1).join("/") || file.name;
      try {
        return { path, text: new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer()) };
      } catch {
        return { path, text: undefined };
      }
    }),
  );
  const files = read.filter((each): each is SkillFile => each.text !== undefined && !each.text.includes("\0"));
  return { files, unread: read.map(({ path }) => path).filter((path) => !files.some((each) => each.path === path)) };
}
