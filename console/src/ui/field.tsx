import { Upload } from "lucide-react";
import { useId, type ComponentProps, type ReactNode } from "react";
import { cn } from "./classes";
import { InlineCode } from "./data";

const control =
  "w-full rounded-md border border-line-strong/60 bg-surface px-2.5 text-text placeholder:text-muted/70 disabled:bg-raised disabled:text-muted aria-invalid:border-fail";

export function Input({ className, ...rest }: ComponentProps<"input">): ReactNode {
  return <input className={cn(control, "h-8 read-only:bg-raised", className)} {...rest} />;
}

export function Textarea({ className, ...rest }: ComponentProps<"textarea">): ReactNode {
  return <textarea className={cn(control, "read-only:bg-raised min-h-20 py-1.5 field-sizing-content max-h-96", className)} {...rest} />;
}

/** The browser's own select: it works with keyboards, screen readers and phones without code. */
export function Select({ className, children, ...rest }: ComponentProps<"select">): ReactNode {
  return (
    <select className={cn(control, "h-8 pr-7", className)} {...rest}>
      {children}
    </select>
  );
}

export function Checkbox({ className, ...rest }: Omit<ComponentProps<"input">, "type">): ReactNode {
  return <input type="checkbox" className={cn("size-4 shrink-0 accent-accent", className)} {...rest} />;
}

/** A button that picks files, in the language of the page. Files may be dropped on it. */
export function FileInput({ label, className, ...rest }: Omit<ComponentProps<"input">, "type"> & { label: string }): ReactNode {
  return (
    <span className={cn("relative inline-flex w-fit", rest.disabled === true && "opacity-50", className)}>
      <input type="file" className="peer absolute inset-0 size-full cursor-pointer opacity-0" {...rest} />
      <span aria-hidden className="inline-flex h-8 items-center gap-1.5 rounded-md border border-line-strong/60 bg-surface px-3 font-medium peer-hover:bg-raised peer-focus-visible:outline-2 peer-focus-visible:outline-offset-2 peer-focus-visible:outline-accent">
        <Upload />
        {label}
      </span>
    </span>
  );
}

/** A checkbox with its label beside it, its help and its error. */
export function CheckField({ label, help, error, checked, disabled, onChange }: { label: ReactNode; help?: ReactNode; error?: ReactNode; checked: boolean; disabled?: boolean; onChange: (checked: boolean) => void }): ReactNode {
  const id = useId();
  const described = [help === undefined ? "" : `${id}-help`, error === undefined ? "" : `${id}-error`].filter(Boolean).join(" ");
  return (
    <div className="flex items-start gap-2">
      <Checkbox id={id} className="mt-0.5" disabled={disabled} checked={checked} aria-describedby={described || undefined} aria-invalid={error === undefined ? undefined : true} onChange={(event) => onChange(event.target.checked)} />
      <div className="min-w-0">
        <label htmlFor={id} className="font-medium">{label}</label>
        {help === undefined ? null : <p id={`${id}-help`} className="text-sm text-muted">{typeof help === "string" ? <InlineCode text={help} /> : help}</p>}
        {error === undefined ? null : <p id={`${id}-error`} className="text-sm text-fail">{error}</p>}
      </div>
    </div>
  );
}

export interface FieldProps {
  label: ReactNode;
  help?: ReactNode;
  error?: ReactNode;
  required?: boolean;
  className?: string;
  children: (ids: { id: string; "aria-describedby": string | undefined; "aria-invalid": true | undefined; "aria-required": true | undefined }) => ReactNode;
}

/** A label, a control, its help and its error. The control gets the ids that connect them. */
export function Field({ label, help, error, required, className, children }: FieldProps): ReactNode {
  const id = useId();
  const described = [help === undefined ? "" : `${id}-help`, error === undefined ? "" : `${id}-error`].filter(Boolean).join(" ");
  return (
    <div className={cn("flex flex-col gap-1", className)}>
      <label htmlFor={id} className="font-medium">
        {label}
        {required === true ? <span className="text-fail" aria-hidden> *</span> : null}
      </label>
      {help === undefined ? null : <p id={`${id}-help`} className="text-sm text-muted">{typeof help === "string" ? <InlineCode text={help} /> : help}</p>}
      {children({
        id,
        "aria-describedby": described || undefined,
        "aria-invalid": error === undefined ? undefined : true,
        "aria-required": required === true ? true : undefined,
      })}
      {error === undefined ? null : <p id={`${id}-error`} className="text-sm text-fail">{error}</p>}
    </div>
  );
}
