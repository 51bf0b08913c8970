/** A browser reads the address of a file for a while after the click. */
const READ_MS = 60_000;

/** Saves an answer as a file. Its request can name the workspace, which a plain link could not. */
export function saveFile(name: string, content: unknown): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content instanceof Blob ? content : new Blob()); // an answer without a body is an empty file
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), READ_MS);
}
