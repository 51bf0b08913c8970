/** The frame around every page: rail, top bar, palette, connection line. */
import { Link, Outlet, useRouterState } from "@tanstack/react-router";
import { Anchor, Check, ChevronRight, Ellipsis, Languages, LogOut, Monitor, Moon, Search, Sun } from "lucide-react";
import { listApprovals, listQuestions, listWorkspaces } from "@bollard/client";
import { useQuery } from "@tanstack/react-query";
import { useState, type ReactNode } from "react";
import { useSession } from "@/api/session";
import { catalogue, useLanguage, useText } from "@/i18n/i18n";
import { Button } from "@/ui/button";
import { cn } from "@/ui/classes";
import { Menu, type MenuItem } from "@/ui/overlay";
import { PlaceContext } from "@/ui/page";
import { ConnectionLine } from "./connection";
import { useEntries } from "./entries";
import { bar, navigation, pageNames, type Entry } from "./navigation";
import { Palette } from "./palette-dialog";
import { signOut } from "./sign-out";
import { useTheme, type Theme } from "./theme";

const texts = catalogue(
  {
    skip: "Skip to the content", search: "Search", waiting_one: "{count} waiting", waiting_other: "{count} waiting", theme: "Theme",
    light: "Light", dark: "Dark", system: "As the device", language: "Language", signOut: "Sign out", account: "Account", workspace: "Workspace",
    pages: "Pages",
  },
  {
    skip: "跳到内容", search: "搜索", waiting_one: "{count} 项待处理", waiting_other: "{count} 项待处理", theme: "主题",
    light: "浅色", dark: "深色", system: "跟随设备", language: "语言", signOut: "退出登录", account: "账户", workspace: "工作区",
    pages: "页面",
  },
);

export function Shell(): ReactNode {
  const t = useText(texts);
  const waiting = useWaiting();
  const [searching, setSearching] = useState(false);
  const [place, setPlace] = useState("");
  return (
    <div className="flex h-dvh max-sm:flex-col">
      <a href="#content" className="sr-only focus:not-sr-only focus:fixed focus:top-2 focus:left-2 focus:z-50 focus:rounded-md focus:bg-accent focus:px-3 focus:py-1.5 focus:text-on-accent">{t("skip")}</a>
      <Rail waiting={waiting} />
      <div className="flex min-h-0 min-w-0 flex-1 flex-col">
        <TopBar place={place} waiting={waiting} onSearch={() => setSearching(true)} />
        <ConnectionLine />
        <div className="min-h-0 flex-1"><PlaceContext value={setPlace}><Outlet /></PlaceContext></div>
      </div>
      <BottomBar waiting={waiting} />
      <Palette open={searching} onOpenChange={setSearching} />
    </div>
  );
}

/** Approvals and questions that wait for a person. The stream of events keeps the number true. */
function useWaiting(): number {
  const { may } = useSession();
  const reads = may("approvals.read");
  const approvals = useQuery({ queryKey: ["approvals", "requested"], queryFn: () => listApprovals({ query: { status: "requested", limit: 50 } }), enabled: reads });
  const questions = useQuery({ queryKey: ["questions", "open"], queryFn: () => listQuestions({ query: { limit: 50 } }), enabled: reads && may("runs.read") });
  return (approvals.data?.items.length ?? 0) + (questions.data?.items.length ?? 0);
}

function Rail({ waiting }: { waiting: number }): ReactNode {
  const t = useText(pageNames);
  const own = useText(texts);
  const { may } = useSession();
  return (
    <nav aria-label={own("pages")} className="flex w-56 shrink-0 flex-col gap-1 overflow-y-auto border-r border-line bg-surface p-3 scroll-thin max-lg:w-14 max-lg:p-2 max-sm:hidden">
      <div className="flex h-9 items-center gap-2 px-2 text-lg font-semibold">
        <Anchor aria-hidden className="size-5! text-accent" />
        <span className="max-lg:sr-only">Bollard</span>
      </div>
      <WorkspaceMenu />
      {navigation.map((group, index) => {
        const entries = group.entries.filter((entry) => entry.right === undefined || may(entry.right));
        if (entries.length === 0) return null;
        return (
          <div key={index} className="flex flex-col gap-0.5">
            {group.name === undefined ? null : <h2 className="mt-3 px-2 text-sm! font-normal! text-muted max-lg:sr-only">{t(group.name)}</h2>}
            {entries.map((entry) => (
              <NavLink key={entry.name} entry={entry} count={entry.name === "approvals" ? waiting : 0} />
            ))}
          </div>
        );
      })}
    </nav>
  );
}

function NavLink({ entry, count }: { entry: Entry; count: number }): ReactNode {
  const t = useText(pageNames);
  const name = t(entry.name);
  return (
    <Link
      to={entry.path}
      title={name}
      activeOptions={{ exact: entry.path === "/" }}
      className="flex h-8 items-center gap-2.5 rounded-md px-2 text-muted hover:bg-raised hover:text-text data-[status=active]:bg-raised data-[status=active]:font-medium data-[status=active]:text-text max-lg:justify-center"
    >
      <entry.icon aria-hidden />
      <span className="flex-1 truncate max-lg:sr-only">{name}</span>
      {count > 0 ? <span className="rounded-full bg-wait-soft px-1.5 text-xs font-medium text-wait max-lg:hidden">{count}</span> : null}
    </Link>
  );
}

function WorkspaceMenu(): ReactNode {
  const t = useText(texts);
  const { workspace, setWorkspace, session, may } = useSession();
  const chooses = session.kind === "installation" || session.role === undefined;
  const query = useQuery({ queryKey: ["workspaces"], queryFn: () => listWorkspaces(), enabled: may("workspaces.read") && chooses });
  const names = query.data?.items.map((each) => each.workspace_id) ?? [];
  if (names.length < 2) return <p className="mb-1 truncate px-2 text-sm text-muted max-lg:sr-only">{workspace}</p>;
  return (
    <Menu
      align="start"
      trigger={<Button kind="ghost" size="sm" className="mb-1 justify-start max-lg:hidden" aria-label={`${t("workspace")}: ${workspace}`}><span className="truncate">{workspace}</span> ▾</Button>}
      items={names.map((name) => ({ label: name, checked: name === workspace, icon: name === workspace ? <Check aria-hidden /> : <span className="w-4" />, onSelect: () => setWorkspace(name) }))}
    />
  );
}

const PALETTE_KEY = navigator.userAgent.includes("Mac") ? "⌘K" : "Ctrl K";

function TopBar({ place, waiting, onSearch }: { place: string; waiting: number; onSearch: () => void }): ReactNode {
  const t = useText(texts);
  return (
    <header className="flex h-12 shrink-0 items-center gap-2 border-b border-line bg-surface px-4">
      <Place place={place} />
      {waiting > 0 ? (
        <Button asChild kind="wait" size="sm"><Link to="/approvals">{t("waiting", { count: waiting })}</Link></Button>
      ) : null}
      <Button kind="secondary" size="sm" onClick={onSearch} aria-keyshortcuts="Control+K Meta+K" aria-label={t("search")}>
        <Search aria-hidden />
        <span className="max-sm:hidden">{t("search")}</span>
        <kbd className="font-sans text-xs text-muted max-sm:hidden">{PALETTE_KEY}</kbd>
      </Button>
      <AccountMenu />
    </header>
  );
}

/** `Runs ▸ count 3`: the page of the rail, and what is shown below it; a chat has its own title line. Resources without an entry of their own belong to the settings. */
function Place({ place }: { place: string }): ReactNode {
  const names = useText(pageNames);
  const path = useRouterState({ select: (state) => state.location.pathname });
  const entries = navigation.flatMap((group) => group.entries);
  const above = entries.find((entry) => (entry.path === "/" ? path === "/" : path.startsWith(entry.path))) ?? entries.find((entry) => entry.name === "settings" && path.startsWith("/resources/"));
  const name = above === undefined ? place : names(above.name);
  return (
    <span className="flex min-w-0 flex-1 items-center gap-1.5 text-muted">
      {above === undefined || above.name === "chat" || place === name ? <span className="truncate">{name}</span> : (
        <>
          <Link to={above.path} className="shrink-0 rounded-sm hover:text-text">{name}</Link>
          <ChevronRight aria-hidden className="size-3.5!" />
          <span className="truncate text-text">{place}</span>
        </>
      )}
    </span>
  );
}

function AccountMenu(): ReactNode {
  const t = useText(texts);
  const { session } = useSession();
  const { language, setLanguage } = useLanguage();
  const [theme, setTheme] = useTheme();
  const themes: [Theme, ReactNode][] = [["light", <Sun key="l" aria-hidden />], ["dark", <Moon key="d" aria-hidden />], ["system", <Monitor key="s" aria-hidden />]];
  const items: MenuItem[] = [
    { label: <span className="text-muted">{session.name}</span>, disabled: true, onSelect: () => undefined },
    ...themes.map(([name, icon]) => ({ label: t(name), icon, checked: theme === name, onSelect: () => setTheme(name) })),
    { label: language === "zh" ? "English" : "中文", icon: <Languages aria-hidden />, onSelect: () => setLanguage(language === "zh" ? "en" : "zh") },
    { label: t("signOut"), icon: <LogOut aria-hidden />, onSelect: signOut },
  ];
  return <Menu trigger={<Button kind="ghost" size="icon" aria-label={t("account")}><Ellipsis aria-hidden /></Button>} items={items} />;
}

function BottomBar({ waiting }: { waiting: number }): ReactNode {
  const t = useText(pageNames);
  const own = useText(texts);
  const entries = useEntries();
  const shown = entries.filter((entry) => bar.includes(entry.name));
  const link = "flex flex-1 flex-col items-center gap-0.5 rounded-md py-1.5 text-xs text-muted data-[status=active]:text-accent-text";
  return (
    <nav aria-label={own("pages")} className="flex shrink-0 border-t border-line bg-surface px-2 pb-[env(safe-area-inset-bottom)] sm:hidden">
      {shown.map((entry) => (
        <Link key={entry.name} to={entry.path} className={cn(link, "relative")}>
          <entry.icon aria-hidden className="size-5!" />
          {t(entry.name)}
          {entry.name === "approvals" && waiting > 0 ? <span className="absolute top-0.5 left-[calc(50%+0.5rem)] rounded-full bg-wait-soft px-1 text-xs text-wait">{waiting}</span> : null}
        </Link>
      ))}
      <Link to="/more" className={link}><Ellipsis aria-hidden className="size-5!" />{t("more")}</Link>
    </nav>
  );
}
