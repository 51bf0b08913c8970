/** Text that a model wrote, as Markdown. It runs no script, loads nothing, and stays in its box. */
import { Component, lazy, Suspense, type ReactNode } from "react";

const Rendered = lazy(() => import("./markdown-renderer"));

const CHARACTERS = 200_000;
/** Hundreds of marks in a row, or quotes and lists nested that deep. No person writes them, and parsing them stops the page for seconds. */
const KNOT = /[*_~[!]{400}|(?:>[ \t]?){100}|(?:(?:[-*+]|\d{1,9}[.)])[ \t]+){50}|^[ \t]{100,}(?:[-*+]|\d{1,9}[.)])[ \t]/m;

export function Markdown({ text, streaming = false }: { text: string; streaming?: boolean }): ReactNode {
  const plain = <div className="overflow-hidden wrap-anywhere whitespace-pre-wrap">{text}</div>;
  if (text.length > CHARACTERS || KNOT.test(text)) return plain;
  return (
    <OrPlain plain={plain}>
      <Suspense fallback={plain}>
        <Rendered text={text} streaming={streaming} />
      </Suspense>
    </OrPlain>
  );
}

/** A text that the renderer fails on is shown as it is; the rest of the page keeps working. */
class OrPlain extends Component<{ plain: ReactNode; children: ReactNode }, { failed: boolean }> {
  override state = { failed: false };

  static getDerivedStateFromError(): { failed: boolean } {
    return { failed: true };
  }

  override render(): ReactNode {
    return this.state.failed ? this.props.plain : this.props.children;
  }
}
