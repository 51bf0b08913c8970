/** What a trace of the browser says about the main thread of the page: its longest task, and its scripting between two frames. */
interface TraceEvent {
  name: string;
  ph: string;
  pid: number;
  tid: number;
  ts: number;
  dur?: number;
  tdur?: number;
  args?: { name?: string };
}

export interface Work {
  longestTaskMs: number;
  /** CPU of scripting per frame: the 95th percentile. */
  scriptingP95Ms: number;
  frames: number;
}

export const CATEGORIES = ["devtools.timeline", "disabled-by-default-devtools.timeline", "toplevel", "v8"];
const SCRIPTING = new Set(["FunctionCall", "EvaluateScript", "v8.compile", "FireAnimationFrame", "TimerFire", "EventDispatch", "RunMicrotasks", "FireIdleCallback", "MinorGC", "MajorGC", "V8.GC_MC_INCREMENTAL"]);
const FRAME = "AnimationFrame";

export function workOf(trace: Buffer): Work {
  const { traceEvents } = JSON.parse(trace.toString()) as { traceEvents: TraceEvent[] };
  const events = mainThread(traceEvents).toSorted((one, other) => one.ts - other.ts);
  const frames = events.filter((event) => event.name === FRAME && event.ph === "b").map((event) => event.ts);
  const perFrame = frames.map(() => 0);
  let frame = -1;
  let until = 0;
  for (const event of events) {
    while (frame + 1 < frames.length && (frames[frame + 1] ?? 0) <= event.ts) frame += 1;
    if (!SCRIPTING.has(event.name) || event.dur === undefined || event.ts < until) continue; // inside one that is counted
    until = event.ts + event.dur;
    if (frame >= 0) perFrame[frame] = (perFrame[frame] ?? 0) + cpuMs(event);
  }
  const tasks = events.filter((event) => event.name === "RunTask" || event.name === "ThreadControllerImpl::RunTask").map(cpuMs);
  return { longestTaskMs: Math.max(0, ...tasks), scriptingP95Ms: percentile(perFrame, 0.95), frames: frames.length };
}

/** CPU of the thread, which other processes disturb little; the time on the clock is no shorter. */
function cpuMs({ tdur, dur }: TraceEvent): number {
  return (tdur ?? dur ?? 0) / 1_000;
}

/** The events of the renderer thread that executed most scripts: the page. */
function mainThread(events: readonly TraceEvent[]): TraceEvent[] {
  const threads = events.filter((event) => event.name === "thread_name" && event.args?.name === "CrRendererMain");
  const of = ({ pid, tid }: TraceEvent): TraceEvent[] => events.filter((event) => event.pid === pid && event.tid === tid && (event.ph === "X" || (event.name === FRAME && event.ph === "b")));
  const all = threads.map(of).toSorted((one, other) => other.length - one.length);
  if (all[0] === undefined) throw new Error("the trace has no page");
  return all[0];
}

export function percentile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((one, other) => one - other);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0;
}
