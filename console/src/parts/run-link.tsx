import { Link } from "@tanstack/react-router";
import type { ComponentProps, ReactNode } from "react";

/** A link to the timeline of a run, or to one step of it. */
export function RunLink({ run, at, children, ...rest }: { run: string; at?: string | undefined } & Omit<ComponentProps<"a">, "href" | "ref">): ReactNode {
  const target: string = `/runs/${encodeURIComponent(run)}`;
  return <Link to={target} search={at === undefined ? {} : { at }} {...rest}>{children}</Link>;
}
