import { createContext, useContext, useEffect, type ReactNode } from "react";
import { cn } from "./classes";

/** Tells the top bar what the page shows. */
export const PlaceContext = createContext<(place: string) => void>(() => undefined);

/** Titles are `entity · page`; the top bar shows the first part. */
export function useTitle(...parts: (string | undefined)[]): void {
  const tell = useContext(PlaceContext);
  const place = parts.find(Boolean) ?? "";
  const title = [...parts.filter(Boolean), "Bollard"].join(" · ");
  useEffect(() => {
    document.title = title;
    tell(place);
  }, [title, place, tell]);
}

export interface PageProps {
  title: string;
  /** The thing that the page shows, for the title of the window. */
  entity?: string | undefined;
  description?: ReactNode;
  actions?: ReactNode;
  /** Use the whole width instead of 1200 px. */
  wide?: boolean;
  children: ReactNode;
}

/** The frame of a page: its title, what it is for, its actions, its content. */
export function Page({ title, entity, description, actions, wide = false, children }: PageProps): ReactNode {
  useTitle(entity, title);
  return (
    <main id="content" tabIndex={-1} className="h-full overflow-y-auto outline-none scroll-thin">
      <div className={cn("mx-auto flex flex-col gap-4 p-6 max-sm:p-4", !wide && "max-w-[1200px]")}>
        <header className="flex flex-wrap items-start gap-3">
          <div className="min-w-0 flex-1 basis-64">
            <h1>{entity ?? title}</h1>
            {description === undefined ? null : <div className="max-w-3xl text-pretty text-muted">{description}</div>}
          </div>
          {actions === undefined ? null : <div className="flex flex-wrap gap-2">{actions}</div>}
        </header>
        {children}
      </div>
    </main>
  );
}
