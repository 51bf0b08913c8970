/** Sees what a hostile text achieves: scripts, requests to others, dialogs, navigations, elements, and what leaves its box. */
import type { BrowserContext, Page } from "@playwright/test";

declare global {
  interface Window {
    pwned: () => void;
    seen: string[];
  }
}

/** Everything that must not happen, in the order in which it happens. Install it before the first page opens. */
export async function watch(context: BrowserContext, origin: string): Promise<string[]> {
  const seen: string[] = [];
  await context.exposeFunction("report", (what: string) => seen.push(what));
  await context.addInitScript(() => {
    const report = (what: string): void => void (window as unknown as { report: (what: string) => Promise<void> }).report(what);
    window.pwned = () => report("a script ran");
    document.addEventListener("securitypolicyviolation", (event) => report(`violation of ${event.effectiveDirective}: ${event.blockedURI} ${event.sample} ${event.sourceFile}`));
  });
  await context.route(() => true, async (route) => {
    const url = new URL(route.request().url());
    if (url.origin === origin || url.protocol === "data:" || url.protocol === "blob:") {
      await route.fallback();
      return;
    }
    seen.push(`request to ${url.href}`);
    await route.abort();
  });
  const attend = (page: Page): void => {
    page.on("dialog", (dialog) => {
      seen.push(`dialog: ${dialog.message()}`);
      void dialog.dismiss();
    });
    page.on("popup", (popup) => seen.push(`popup: ${popup.url()}`));
    page.on("pageerror", (error) => seen.push(`error: ${error.message}`));
    page.on("frameattached", () => seen.push("a frame"));
    page.on("download", (download) => seen.push(`download: ${download.url()}`));
  };
  context.on("page", attend);
  for (const page of context.pages()) attend(page);
  return seen;
}

/** What is wrong in the boxes of the page: an element or attribute that no component makes, or something outside its box. */
export function findings(): string[] {
  const tags = new Set("a blockquote br button code dd del div dl dt em h1 h2 h3 h4 h5 h6 header hr input li ol p pre section span strong sup table tbody td th thead tr ul svg path rect circle line polyline".split(" "));
  const attributes = new Set("class title href target rel type start checked disabled readonly tabindex scope role data-footnotes".split(" "));
  const found: string[] = [];
  const rectOf = (text: Node): DOMRect => {
    const range = document.createRange();
    range.selectNodeContents(text);
    return range.getBoundingClientRect();
  };
  for (const box of document.querySelectorAll<HTMLElement>("[data-box]")) {
    const name = `box ${box.dataset.box ?? ""}`;
    if (box.childElementCount === 0) found.push(`${name}: empty`);
    const frame = box.getBoundingClientRect();
    for (const element of box.querySelectorAll("*")) {
      const tag = element.tagName.toLowerCase();
      const isIcon = element.closest("svg") !== null;
      if (!tags.has(tag)) found.push(`${name}: <${tag}>`);
      for (const { name: attribute, value } of element.attributes) {
        if (!isIcon && !attributes.has(attribute) && !attribute.startsWith("aria-") && !attribute.startsWith("data-streamdown")) found.push(`${name}: ${tag}[${attribute}=${value.slice(0, 80)}]`);
      }
      if (element instanceof HTMLAnchorElement && !(["http:", "https:", "mailto:"].includes(element.protocol) && element.target === "_blank" && element.relList.contains("noopener") && element.title === element.href)) found.push(`${name}: link ${element.href.slice(0, 200)}`);
      if (element instanceof HTMLButtonElement && !/^Copy\b/.test(element.ariaLabel ?? "")) found.push(`${name}: button ${element.textContent.slice(0, 80)}`);
      if (element instanceof HTMLInputElement && !(element.type === "checkbox" && element.disabled)) found.push(`${name}: input ${element.type}`);
      const role = element.getAttribute("role");
      if (role !== null && !(role === "alert" && element.parentElement === box)) found.push(`${name}: role ${role}`);
      if (["fixed", "sticky"].includes(getComputedStyle(element).position)) found.push(`${name}: ${tag} is ${getComputedStyle(element).position}`);
    }
    const walker = document.createTreeWalker(box, NodeFilter.SHOW_ELEMENT | NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node !== null; node = walker.nextNode()) {
      const rect = node instanceof Element ? node.getBoundingClientRect() : rectOf(node);
      let [left, right] = [rect.left, rect.right];
      for (let outer = node.parentElement; outer !== null && outer !== box; outer = outer.parentElement) {
        if (getComputedStyle(outer).overflowX === "visible") continue;
        const clip = outer.getBoundingClientRect();
        [left, right] = [Math.max(left, clip.left), Math.min(right, clip.right)];
      }
      if (right > left && rect.height > 0 && (left < frame.left - 1 || right > frame.right + 1)) {
        found.push(`${name}: ${node.nodeName} from ${left.toFixed(0)} to ${right.toFixed(0)} leaves ${frame.left.toFixed(0)} to ${frame.right.toFixed(0)}: ${(node.textContent ?? "").slice(0, 40)}`);
        break;
      }
    }
  }
  return found;
}
