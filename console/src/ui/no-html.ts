/**
 * Stands for the rehype plugins that streamdown brings, which read HTML out of a text and clean it. The page uses none
 * of them: tags of a text stay text. A renderer that names one fails instead of rendering HTML.
 */
export default function unused(): never {
  throw new Error("Markdown with HTML is not rendered");
}
export const harden = unused;
export const defaultSchema = { protocols: { href: [], src: [] }, attributes: { code: [] } };
