import { setNonce } from "get-nonce";

/** Libraries that add style elements (locked scrolling behind a dialog) use the nonce of the page's policy. */
export function setStyleNonce(): void {
  const nonce = document.querySelector<HTMLMetaElement>('meta[name="csp-nonce"]')?.content;
  if (nonce !== undefined && nonce !== "") setNonce(nonce);
}
