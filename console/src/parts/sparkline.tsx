import type { ReactNode } from "react";

/** Small bars of one number over time, without axes: the number beside it says what it is. */
export function Sparkline({ values, className }: { values: readonly (number | null)[]; className?: string }): ReactNode {
  const most = Math.max(1, ...values.map((value) => value ?? 0));
  return (
    <svg aria-hidden viewBox={`0 0 ${values.length * 4} 24`} preserveAspectRatio="none" className={className}>
      {values.map((value, index) => {
        const height = value === null || value === 0 ? 1 : Math.max(2, (value / most) * 24);
        return <rect key={index} x={index * 4} y={24 - height} width={3} height={height} fill="currentColor" opacity={value === null || value === 0 ? 0.25 : 1} />;
      })}
    </svg>
  );
}
