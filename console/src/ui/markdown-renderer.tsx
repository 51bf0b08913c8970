import { ExternalLink, ImageOff } from "lucide-react";
import { memo, type ComponentProps, type CSSProperties, type JSX, type ReactNode } from "react";
import { Streamdown, type StreamdownProps } from "streamdown";
import { catalogue, useText } from "@/i18n/i18n";
import { cn } from "./classes";
import { CopyButton } from "./feedback";

const texts = catalogue(
  { image: "Image not loaded: {alt}", unnamed: "without a name", outside: "opens {host} in a new tab" },
  { image: "未加载的图片：{alt}", unnamed: "未命名", outside: "在新标签页打开 {host}" },
);

const SAFE = new Set(["http:", "https:", "mailto:"]);

function Link({ href, children }: ComponentProps<"a">): ReactNode {
  const t = useText(texts);
  const target = address(href);
  if (target === undefined) return <span>{children}</span>;
  // The real address is in the title: a text cannot pretend to lead elsewhere.
  return (
    <a href={target.href} title={target.href} target="_blank" rel="noopener noreferrer nofollow" className="text-accent-text underline underline-offset-2">
      {children}
      <ExternalLink className="ml-0.5 inline size-3!" aria-label={t("outside", { host: target.host || target.href })} />
    </a>
  );
}

function address(href: string | undefined): URL | undefined {
  try {
    const url = new URL(href ?? "");
    return SAFE.has(url.protocol) ? url : undefined;
  } catch {
    return undefined;
  }
}

/** A remote image would tell its server who reads the answer, so it is named instead. */
function Picture({ alt, src }: ComponentProps<"img">): ReactNode {
  const t = useText(texts);
  const target = address(typeof src === "string" ? src : undefined);
  const name = t("image", { alt: alt === undefined || alt === "" ? t("unnamed") : alt });
  return (
    <span className="inline-flex items-center gap-1.5 rounded-md border border-line bg-raised px-2 py-0.5 text-sm text-muted">
      <ImageOff aria-hidden />
      {target === undefined ? name : <Link href={target.href}>{name}</Link>}
    </span>
  );
}

function Fence({ children, className }: ComponentProps<"code">): ReactNode {
  const text = typeof children === "string" ? children : Array.isArray(children) ? children.join("") : "";
  if (className?.startsWith("language-") !== true && !text.includes("\n")) {
    return <code className="rounded-sm bg-raised px-1 py-0.5 font-mono text-[0.9em]">{children}</code>;
  }
  return (
    <span className="relative my-2 block rounded-md border border-line bg-raised">
      <code className="block overflow-x-auto p-3 pr-10 font-mono text-sm whitespace-pre scroll-thin">{text.replace(/\n$/, "")}</code>
      <CopyButton text={text} className="absolute top-1 right-1 size-7" />
    </span>
  );
}

function aligned(style: CSSProperties | undefined): string | undefined {
  return style?.textAlign === "right" ? "text-right" : style?.textAlign === "center" ? "text-center" : undefined;
}

const components = {
  a: Link,
  img: Picture,
  code: Fence,
  pre: ({ children }) => <div>{children}</div>,
  h1: ({ children }) => <h3 className="mt-3 mb-1 text-lg">{children}</h3>,
  h2: ({ children }) => <h3 className="mt-3 mb-1 text-lg">{children}</h3>,
  h3: ({ children }) => <h4 className="mt-3 mb-1 font-semibold">{children}</h4>,
  h4: ({ children }) => <h4 className="mt-3 mb-1 font-semibold">{children}</h4>,
  h5: ({ children }) => <h5 className="mt-2 font-semibold">{children}</h5>,
  h6: ({ children }) => <h6 className="mt-2 font-semibold">{children}</h6>,
  p: ({ children }) => <p className="my-2 first:mt-0 last:mb-0">{children}</p>,
  ul: ({ children }) => <ul className="my-2 list-disc pl-6">{children}</ul>,
  ol: ({ children, start }) => <ol start={start} className="my-2 list-decimal pl-6">{children}</ol>,
  li: ({ children }) => <li className="my-0.5">{children}</li>,
  blockquote: ({ children }) => <blockquote className="my-2 border-l-2 border-line-strong/50 pl-3 text-muted">{children}</blockquote>,
  hr: () => <hr className="my-4" />,
  table: ({ children }) => (
    <div className="my-2 overflow-x-auto rounded-md border border-line scroll-thin">
      <table className="w-full text-left wrap-break-word">{children}</table>
    </div>
  ),
  th: ({ children, style }) => <th className={cn("border-b border-line bg-raised px-3 py-1.5 font-medium", aligned(style))}>{children}</th>,
  td: ({ children, style }) => <td className={cn("border-b border-line px-3 py-1.5", aligned(style))}>{children}</td>,
  input: ({ checked }) => <input type="checkbox" checked={checked === true} readOnly disabled className="mr-1 align-middle" />,
} satisfies { [Tag in keyof JSX.IntrinsicElements]?: (props: ComponentProps<Tag>) => ReactNode } as StreamdownProps["components"];

/** Without `rehype-raw` the tags of a text stay text. One list for all: streamdown draws every block again when it gets another one. */
const NO_HTML: NonNullable<StreamdownProps["rehypePlugins"]> = [];

function Rendered({ text, streaming }: { text: string; streaming: boolean }): ReactNode {
  return (
    <div className="overflow-hidden">
      <Streamdown mode={streaming ? "streaming" : "static"} parseIncompleteMarkdown={streaming} controls={false} components={components} rehypePlugins={NO_HTML} className="space-y-0">
        {text}
      </Streamdown>
    </div>
  );
}

export default memo(Rendered);
