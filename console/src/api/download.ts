/** Saves an answer as a file. Its request can name the workspace, which a plain link could not. */
export function saveFile(name: string, content: unknown): void {
  if (!(content instanceof Blob)) return;
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content);
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}
