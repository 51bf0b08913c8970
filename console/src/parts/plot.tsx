/** A plot over time: uPlot with the page's colours, axes with units, a legend in words, and a table of the same numbers. */
import "uplot/dist/uPlot.min.css";
import { Table2, ChartColumn } from "lucide-react";
import { useEffect, useRef, useState, type ReactNode } from "react";
import uPlot from "uplot";
import { catalogue, locale, useLanguage, useText } from "@/i18n/i18n";
import { Button } from "@/ui/button";
import { cn } from "@/ui/classes";
import { Card, Table, type Column } from "@/ui/data";
import { dataOf, type Colour, type PlotSeries } from "./stack";

const texts = catalogue({ table: "Show as table", plot: "Show as plot", hour: "Hour" }, { table: "显示为表格", plot: "显示为图表", hour: "小时" });

export interface PlotProps {
  title: string;
  /** Seconds since 1970. */
  times: readonly number[];
  series: readonly PlotSeries[];
  /** A number, with its unit unless `unit` says it. */
  format: (value: number) => string;
  /** The unit of the axis of values, in words. */
  unit?: string | undefined;
  /** Round steps of the axis of values. */
  steps: readonly number[];
  /** `stack`: bars on top of each other. `band`: lines, with the room between the first two filled. */
  kind: "stack" | "band";
  /** What to say when there is nothing to show. */
  empty: string;
}

const HEIGHT_PX = 200;
const GAP_PX = 16;

export function Plot({ title, times, series, format, unit, steps, kind, empty }: PlotProps): ReactNode {
  const t = useText(texts);
  const { language } = useLanguage();
  const [table, setTable] = useState(false);
  const nothing = series.every(({ values }) => values.every((value) => value === null || value === 0));
  const clock = new Intl.DateTimeFormat(locale(language), { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
  const rows = times.map((at, index) => ({ at, values: series.map(({ values }) => values[index] ?? null) })).reverse();
  const columns: Column<(typeof rows)[number]>[] = [
    { name: t("hour"), cell: (row) => clock.format(row.at * 1_000) },
    ...series.map(({ name }, index) => ({ name, className: "text-right", cell: (row: (typeof rows)[number]) => (row.values[index] == null ? "" : format(row.values[index])) })),
  ];
  return (
    <Card
      title={title}
      actions={nothing ? null : <Button kind="ghost" size="sm" aria-pressed={table} onClick={() => setTable(!table)}>{table ? <ChartColumn aria-hidden /> : <Table2 aria-hidden />}{t(table ? "plot" : "table")}</Button>}
      className="min-w-0"
    >
      {nothing ? <p className="grid h-[200px] place-items-center text-muted">{empty}</p> : table ? (
        <div tabIndex={0} role="group" aria-label={title} className="max-h-60 overflow-y-auto scroll-thin"><Table rows={rows} columns={columns} id={(row) => String(row.at)} label={title} /></div>
      ) : (
        <>
          <Legend series={series} />
          {unit === undefined ? null : <p className="text-xs text-muted">{unit}</p>}
          <Canvas title={title} times={times} series={series} format={format} steps={steps} kind={kind} clock={clock} />
        </>
      )}
    </Card>
  );
}

const SWATCHES: Record<NonNullable<PlotSeries["texture"]>, (colour: string) => string> = {
  stripes: (colour) => `repeating-linear-gradient(135deg, ${colour} 0 2px, transparent 2px 4px)`,
  dots: (colour) => `radial-gradient(${colour} 1px, transparent 1.5px) 0 0 / 4px 4px`,
};

function Legend({ series }: { series: readonly PlotSeries[] }): ReactNode {
  return (
    <ul className="mb-2 flex flex-wrap gap-x-4 gap-y-1 text-sm text-muted">
      {series.map(({ name, colour, dashed, texture }) => (
        <li key={name} className="flex items-center gap-1.5">
          {texture === undefined ? (
            <span aria-hidden className={cn("inline-block w-3 border-t-[6px]", dashed === true && "w-4 border-t-2 border-dashed")} style={{ borderColor: `var(${colour})` }} />
          ) : <span aria-hidden className="inline-block h-2.5 w-3" style={{ background: SWATCHES[texture](`var(${colour})`) }} />}
          {name}
        </li>
      ))}
    </ul>
  );
}

function Canvas({ title, times, series, format, steps, kind, clock }: Omit<PlotProps, "empty" | "unit"> & { clock: Intl.DateTimeFormat }): ReactNode {
  const place = useRef<HTMLDivElement>(null);
  const theme = useThemeName();
  const key = JSON.stringify([times, series]);
  useEffect(() => {
    const box = place.current;
    if (box === null) return;
    const plot = new uPlot(options(box, series, format, steps, kind, clock), dataOf(times, series, kind), box);
    const watch = new ResizeObserver(() => plot.setSize({ width: box.clientWidth, height: HEIGHT_PX }));
    watch.observe(box);
    return () => {
      watch.disconnect();
      plot.destroy();
    };
    // eslint-disable-next-line react-hooks/exhaustive-deps -- `key` stands for the numbers; the plot is drawn anew for another theme
  }, [key, theme, kind]);
  return <div ref={place} role="img" aria-label={title} className="h-[200px] w-full" />;
}

function options(box: HTMLElement, series: readonly PlotSeries[], format: (value: number) => string, steps: readonly number[], kind: PlotProps["kind"], clock: Intl.DateTimeFormat): uPlot.Options {
  const style = getComputedStyle(document.documentElement);
  const colour = (name: Colour): string => style.getPropertyValue(name).trim();
  const axis = { stroke: colour("--muted"), font: `12px ${getComputedStyle(document.body).fontFamily}`, grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false } };
  const bars = uPlot.paths.bars?.({ size: [0.7, 32] });
  return {
    width: box.clientWidth,
    height: HEIGHT_PX,
    legend: { show: false },
    cursor: { show: false },
    scales: { x: { time: true }, y: { range: (_, __, most) => [0, Math.max(most * 1.1, kind === "stack" ? 4 : 1)] } },
    padding: [12, 20, 0, 0],
    axes: [
      { ...axis, grid: { show: false }, space: 60, size: 28, gap: 8, values: (_, splits) => splits.map((at) => clock.format(at * 1_000)) },
      { ...axis, gap: 8, size: (plot, labels) => widthOf(plot, labels, axis.font), incrs: [...steps], values: (_, splits) => splits.map((value) => format(value)) },
    ],
    series: [
      {},
      ...series.map(({ name, colour: token, dashed, texture }) =>
        kind === "stack"
          ? { label: name, fill: texture === undefined ? colour(token) : textureOf(texture, colour(token), colour("--surface")), width: 0, points: { show: false }, ...(bars === undefined ? {} : { paths: bars }) }
          : { label: name, stroke: colour(token), width: 2, spanGaps: false, ...(dashed === true ? { dash: [5, 4] } : {}), points: { show: true, size: 5, fill: colour(token) } },
      ),
    ],
    ...(kind === "band" ? { bands: [{ series: [1, 2], fill: colour("--accent-soft") }] } : {}),
  };
}

const TILE_PX = 6;

/** A small tile that a bar repeats: stripes or dots on the colour of the page. */
function textureOf(texture: NonNullable<PlotSeries["texture"]>, colour: string, ground: string): CanvasPattern | string {
  const tile = document.createElement("canvas");
  const size = Math.round(TILE_PX * devicePixelRatio);
  tile.width = size;
  tile.height = size;
  const pen = tile.getContext("2d");
  if (pen === null) return colour;
  pen.fillStyle = ground;
  pen.fillRect(0, 0, size, size);
  pen.fillStyle = colour;
  pen.strokeStyle = colour;
  pen.lineWidth = size / 2.6;
  pen.beginPath();
  if (texture === "dots") pen.arc(size / 2, size / 2, size / 3, 0, 2 * Math.PI);
  else for (const shift of [-size, 0, size]) {
    pen.moveTo(shift, size);
    pen.lineTo(shift + size, 0);
  }
  if (texture === "dots") pen.fill();
  else pen.stroke();
  return pen.createPattern(tile, "repeat") ?? colour;
}

/** The room that the labels of an axis need. */
function widthOf(plot: uPlot, labels: readonly string[] | null, font: string): number {
  plot.ctx.save();
  plot.ctx.font = font;
  const widest = Math.max(0, ...(labels ?? []).map((label) => plot.ctx.measureText(label).width));
  plot.ctx.restore();
  return Math.ceil(widest) + GAP_PX;
}

/** Changes when the page turns dark or light. */
function useThemeName(): string {
  const [name, setName] = useState(() => document.documentElement.className);
  useEffect(() => {
    const watch = new MutationObserver(() => setName(document.documentElement.className));
    watch.observe(document.documentElement, { attributes: true, attributeFilter: ["class"] });
    return () => watch.disconnect();
  }, []);
  return name;
}
