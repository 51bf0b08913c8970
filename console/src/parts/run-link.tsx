import { Link } from "@tanstack/react-router";
import type { ComponentProps, ReactNode } from "react";

/** A link to the timeline of a run. */
export function RunLink({ run, children, ...rest }: { run: string } & Omit<ComponentProps<"a">, "href" | "ref">): ReactNode {
  const target: string = `/runs/${encodeURIComponent(run)}`;
  return <Link to={target} {...rest}>{children}</Link>;
}
