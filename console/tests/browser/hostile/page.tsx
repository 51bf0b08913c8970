/** A page with the components that show text of others, each in a box of its own. `show` replaces the texts. */
import "@/design/tokens.css";
import { ApiError } from "@bollard/client";
import { useEffect, useState, type ReactNode } from "react";
import { createRoot } from "react-dom/client";
import { LanguageProvider } from "@/i18n/i18n";
import { Badge } from "@/ui/badge";
import { Card, Code, Facts, Id, Json, Table } from "@/ui/data";
import { Command, Empty, ErrorNote } from "@/ui/feedback";
import { Markdown } from "@/ui/markdown";
import { useTitle } from "@/ui/page";

const surfaces: Record<string, (text: string) => ReactNode> = {
  markdown: (text) => <Markdown text={text} />,
  streaming: (text) => <Markdown text={text} streaming />,
  code: (text) => <Code text={text} label={text} />,
  line: (text) => <Code text={text} wrap={false} />,
  json: (text) => <Json value={{ [text]: text }} />,
  cell: (text) => <Table label={text} rows={[text]} id={String} columns={[{ name: text, cell: String }, { name: "", cell: (row) => <Id id={row} /> }]} />,
  facts: (text) => <Facts items={[["name", text], ["id", <Id key="id" id={text} />]]} />,
  badge: (text) => <Badge title={text}>{text}</Badge>,
  card: (text) => <Card title={text}><Code text={text} /></Card>,
  empty: (text) => <Empty title={text} command={text}>{text}</Empty>,
  command: (text) => <Command text={text} />,
  error: (text) => <ErrorNote error={new ApiError({ code: text, message: text, hint: text, details: { reason: text, field: text } }, 400)} />,
};

declare global {
  interface Window {
    show: (surface: string, texts: readonly string[]) => void;
  }
}

function Boxes(): ReactNode {
  const [{ surface, texts, turn }, setShown] = useState<{ surface: string; texts: readonly string[]; turn: number }>({ surface: "code", texts: [], turn: 0 });
  useEffect(() => {
    window.show = (name, list) => setShown((last) => ({ surface: name, texts: list, turn: last.turn + 1 }));
  }, []);
  useTitle(texts[0], surface);
  return (
    <main data-turn={turn}>
      {texts.map((text, index) => (
        <section key={`${turn}-${index}`} data-box={index} className="max-w-sm p-4">{surfaces[surface]?.(text)}</section>
      ))}
    </main>
  );
}

const place = document.getElementById("root");
if (place === null) throw new Error("no #root");
createRoot(place).render(<LanguageProvider><Boxes /></LanguageProvider>);
