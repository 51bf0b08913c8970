import { expect, it } from "vitest";
import { skillFiles } from "./skill-folder";

function picked(path: string, content: BlobPart): File {
  const file = new File([content], path.split("/").at(-1) ?? path);
  Object.defineProperty(file, "webkitRelativePath", { value: path });
  return file;
}

it("reads the text files below the picked folder, and names what is not text", async () => {
  const { files, unread } = await skillFiles([picked("greeting/SKILL.md", "你好"), picked("greeting/docs/more.md", "more"), picked("greeting/logo.png", new Uint8Array([0x89, 0x50, 0xff]))]);
  expect(files).toEqual([{ path: "SKILL.md", text: "你好" }, { path: "docs/more.md", text: "more" }]);
  expect(unread).toEqual(["logo.png"]);
});
