import { cva, type VariantProps } from "class-variance-authority";
import { LoaderCircle } from "lucide-react";
import { Slot } from "radix-ui";
import type { ComponentProps, ReactNode } from "react";
import { cn } from "./classes";

const styles = cva(
  "inline-flex items-center justify-center gap-1.5 rounded-md font-medium whitespace-nowrap transition-colors duration-100 disabled:opacity-50 aria-disabled:opacity-50 select-none",
  {
    variants: {
      kind: {
        primary: "bg-accent text-on-accent hover:bg-accent/90",
        secondary: "border border-line-strong/60 bg-surface text-text hover:bg-raised",
        ghost: "text-muted hover:bg-raised hover:text-text",
        danger: "border border-fail/60 bg-surface text-fail hover:bg-fail-soft",
        wait: "border border-wait-line bg-wait-soft text-wait hover:bg-wait-soft/70",
      },
      size: { md: "h-8 px-3", sm: "h-7 px-2 text-sm", icon: "size-8", lg: "h-9 px-4" },
    },
    defaultVariants: { kind: "secondary", size: "md" },
  },
);

export type ButtonProps = ComponentProps<"button"> & VariantProps<typeof styles> & { asChild?: boolean; busy?: boolean };

/** A button. Its text is a verb. `busy` shows that its action runs and prevents a second one. */
export function Button({ className, kind, size, asChild = false, busy = false, disabled, children, ...rest }: ButtonProps): ReactNode {
  const classes = cn(styles({ kind, size }), className);
  if (asChild) return <Slot.Root className={classes} {...rest}>{children}</Slot.Root>;
  return (
    <button type="button" className={classes} disabled={disabled === true || busy} aria-busy={busy || undefined} {...rest}>
      {busy ? <LoaderCircle className="animate-spin" aria-hidden /> : null}
      {children}
    </button>
  );
}
