import type { AlignedData } from "uplot";

/** A token of the design, such as `--accent`. */
export type Colour = `--${string}`;

export interface PlotSeries {
  name: string;
  colour: Colour;
  /** One value for each time; null where there is none. */
  values: readonly (number | null)[];
  dashed?: boolean;
  /** The texture of a bar, so that bars differ in grey too. */
  texture?: "stripes" | "dots";
}

/** A stack is drawn from its whole downwards: each series covers the sum of those below it. */
export function dataOf(times: readonly number[], series: readonly PlotSeries[], kind: "stack" | "band"): AlignedData {
  if (kind === "band") return [[...times], ...series.map(({ values }) => [...values])];
  const sums = times.map(() => 0);
  const stacked = series.toReversed().map(({ values }) => values.map((value, index) => (sums[index] = (sums[index] ?? 0) + (value ?? 0))));
  return [[...times], ...stacked.reverse()];
}
