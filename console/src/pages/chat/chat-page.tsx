import { deleteConversation, listConversations, type AgentRun } from "@bollard/client";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { getRouteApi, useNavigate } from "@tanstack/react-router";
import { PanelLeft, PanelRight, Trash2 } from "lucide-react";
import { lazy, Suspense, useCallback, useEffect, useMemo, useState, type ReactNode } from "react";
import { useConnection } from "@/api/live";
import { useSession } from "@/api/session";
import { useText } from "@/i18n/i18n";
import { Button } from "@/ui/button";
import { ErrorNote, Skeleton } from "@/ui/feedback";
import { Select } from "@/ui/field";
import { Confirm, Dialog } from "@/ui/overlay";
import { useNarrow } from "@/ui/media";
import { useTitle } from "@/ui/page";
import { useNotes } from "@/ui/toast";
import { chooseAgent, useAgents, type Agents } from "./agents";
import { Conversation } from "./conversation";
import { ConversationList, searchOf } from "./conversation-list";
import { newConversationId, spendConversationId } from "./draft";
import { historyKey, useHistory, type Place } from "./history";
import { useMarks, withoutPin } from "./marks";
import { outboxOf, type Outbox, type Outgoing } from "./outbox";
import { chatTexts } from "./texts";

const Inspector = lazy(() => import("./inspector"));
const route = getRouteApi("/chat");

export default function ChatPage(): ReactNode {
  const t = useText(chatTexts);
  const search = route.useSearch();
  const navigate = useNavigate();
  const agents = useAgents();
  const [listOpen, setListOpen] = useState(false);
  const { conversation = newConversationId(), thread, bot } = search;
  const place = useMemo<Place>(() => ({ conversation, thread, bot }), [conversation, thread, bot]);
  const title = useConversationTitle(place, search.conversation !== undefined);
  useTitle(title, t("chat"));
  const { history } = useHistory(place);
  const inspector = useInspector(place, history.runs);
  const [attempt, setAttempt] = useState(0);
  const agent = chooseAgent(agents.agents, search.agent ?? history.runs[0]?.agent_id, agents.hasModel);
  const outbox = useOutbox();
  const onBegun = useCallback(() => {
    spendConversationId(place.conversation);
    void navigate({ to: "/chat", search: { ...searchOf(place), ...(agent === undefined ? {} : { agent }) }, replace: true });
  }, [place, agent, navigate]);
  return (
    <main id="content" tabIndex={-1} className="flex h-full min-h-0 outline-none">
      <h1 className="sr-only">{t("chat")}</h1>
      <div className="w-72 shrink-0 border-r border-line bg-surface max-lg:hidden"><ConversationList current={place} agent={search.agent} /></div>
      <Dialog open={listOpen} onOpenChange={setListOpen} title={t("conversations")} place="side" className="w-[min(100vw,24rem)]">
        <ConversationList current={place} agent={search.agent} onOpen={() => setListOpen(false)} />
      </Dialog>
      <section className="flex min-w-0 flex-1 flex-col">
        <Header place={place} title={title} begun={search.conversation !== undefined} agents={agents} agent={agent} onAgent={(id) => void navigate({ to: "/chat", search: { ...search, agent: id }, replace: true })} onList={() => setListOpen(true)} inspector={inspector} />
        {agents.error === null ? null : <div className="p-6"><ErrorNote error={agents.error} onRetry={agents.refetch} /></div>}
        {agents.isLoading ? <Skeleton rows={4} className="p-6" /> : <Conversation key={[place.conversation, thread, bot].join("\n")} place={place} agents={agents} agent={agent ?? ""} outbox={outbox} onBegun={onBegun} inspected={inspector.run?.run_id} onInspect={inspector.isShown ? inspector.select : undefined} />}
      </section>
      {inspector.run === undefined ? null : (
        <aside aria-label={t("run")} className="flex w-80 shrink-0 flex-col border-l border-line bg-surface">
          <Suspense fallback={<Skeleton rows={6} className="p-4" />}><Inspector key={`${inspector.run.run_id} ${attempt}`} onRetry={() => setAttempt(attempt + 1)} run={inspector.run} agentName={agents.name(inspector.run.agent_id)} onClose={inspector.toggle} /></Suspense>
        </aside>
      )}
    </main>
  );
}

interface InspectorState {
  /** Whether a person wants it and the screen has room for it. */
  isShown: boolean;
  hasRoom: boolean;
  toggle: () => void;
  /** The run of the selected answer, else the newest one. */
  run: AgentRun | undefined;
  select: (runId: string) => void;
}

const INSPECTOR = "bollard.chat.inspector";

function useInspector(place: Place, runs: readonly AgentRun[]): InspectorState {
  const [isOpen, setOpen] = useState(() => localStorage.getItem(INSPECTOR) === "open");
  const [selected, setSelected] = useState<{ place: Place; run: string }>();
  const hasRoom = !useNarrow();
  const isShown = isOpen && hasRoom;
  const toggle = useCallback(() => {
    localStorage.setItem(INSPECTOR, isOpen ? "closed" : "open");
    setOpen(!isOpen);
  }, [isOpen]);
  const select = useCallback((run: string) => setSelected({ place, run }), [place]);
  const picked = selected?.place === place ? runs.find((run) => run.run_id === selected.run) : undefined;
  return { isShown, hasRoom, toggle, run: isShown ? picked ?? runs[0] : undefined, select };
}

/** Messages that wait are sent when the page opens, when the network is back, and when the host answers again. */
function useOutbox(): Outbox {
  const queries = useQueryClient();
  const { session, workspace } = useSession();
  const { status } = useConnection();
  const outbox = outboxOf(session.user_id ?? session.name, workspace);
  useEffect(
    () =>
      outbox.start((message: Outgoing) => {
        void queries.invalidateQueries({ queryKey: historyKey(message) });
        void queries.invalidateQueries({ queryKey: ["conversations", "list"] });
      }),
    [outbox, queries],
  );
  useEffect(() => {
    if (status === "live") outbox.resume();
  }, [outbox, status]);
  return outbox;
}

/** The title as the list of conversations has it. */
function useConversationTitle(place: Place, begun: boolean): string {
  const t = useText(chatTexts);
  const { history } = useHistory(place);
  const query = useQuery({ queryKey: ["conversations", "newest"], queryFn: () => listConversations({ query: { limit: 100 } }), enabled: begun });
  const listed = query.data?.items.find((item) => item.conversation_id === place.conversation && (item.thread_id ?? undefined) === place.thread && (item.bot_id ?? undefined) === place.bot)?.title;
  const first = history.older === undefined ? history.items[0]?.content?.split("\n")[0] : undefined;
  return listed ?? first ?? (begun ? t("untitled", { id: place.conversation }) : t("newConversation"));
}

interface HeaderProps {
  place: Place;
  title: string;
  begun: boolean;
  agents: Agents;
  agent: string | undefined;
  onAgent: (id: string) => void;
  onList: () => void;
  inspector: InspectorState;
}

function Header({ place, title, begun, agents, agent, onAgent, onList, inspector }: HeaderProps): ReactNode {
  const t = useText(chatTexts);
  const { may } = useSession();
  const names = [...new Set([...agents.agents.map((each) => each.agent_id), ...(agent === undefined ? [] : [agent])])];
  const usable = (id: string): boolean => agents.find(id)?.available === true && agents.find(id)?.enabled === true;
  return (
    <header className="flex h-12 shrink-0 items-center gap-2 border-b border-line px-4 max-sm:px-3">
      <Button kind="ghost" size="icon" className="lg:hidden" aria-label={t("conversations")} onClick={onList}><PanelLeft aria-hidden /></Button>
      <h2 dir="auto" className="min-w-0 flex-1 truncate">{title}</h2>
      {may("runs.create") && agent !== undefined ? (
        <Select aria-label={t("agent")} value={agent} onChange={(event) => onAgent(event.target.value)} className="w-auto max-w-44 truncate max-sm:max-w-32">
          {names.map((id) => <option key={id} value={id} disabled={!usable(id)}>{usable(id) ? agents.name(id) : t("unavailable", { name: agents.name(id) })}</option>)}
        </Select>
      ) : null}
      {begun && may("conversations.write") ? <DeleteButton place={place} /> : null}
      {begun && inspector.hasRoom ? <Button kind="ghost" size="icon" aria-label={t("inspect")} title={t("inspect")} aria-pressed={inspector.isShown} onClick={inspector.toggle} className="aria-pressed:bg-raised aria-pressed:text-text"><PanelRight aria-hidden /></Button> : null}
    </header>
  );
}

function DeleteButton({ place }: { place: Place }): ReactNode {
  const t = useText(chatTexts);
  const queries = useQueryClient();
  const navigate = useNavigate();
  const notes = useNotes();
  const { change } = useMarks();
  const remove = async (): Promise<void> => {
    await deleteConversation({ path: { conversation_id: place.conversation }, query: place.bot === undefined ? {} : { bot: place.bot } });
    queries.removeQueries({ queryKey: historyKey(place) });
    void queries.invalidateQueries({ queryKey: ["conversations"] });
    change((marks) => withoutPin(marks, place));
    notes.done(t("deleted"));
    await navigate({ to: "/chat", search: {} });
  };
  return (
    <Confirm trigger={<Button kind="ghost" size="icon" aria-label={t("delete")} title={t("delete")}><Trash2 aria-hidden /></Button>} title={t("deleteTitle")} action={t("deleteAction")} onConfirm={remove}>
      {t("deleteBody")}
    </Confirm>
  );
}
