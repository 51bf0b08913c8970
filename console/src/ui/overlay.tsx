/** Dialogs, confirmations, menus and tooltips. */
import { X } from "lucide-react";
import { AlertDialog, Dialog as RadixDialog, DropdownMenu, Tooltip as RadixTooltip } from "radix-ui";
import { useState, type ReactNode } from "react";
import { catalogue, useText } from "@/i18n/i18n";
import { Button } from "./button";
import { cn } from "./classes";
import { ErrorNote } from "./feedback";

const texts = catalogue({ close: "Close", cancel: "Cancel" }, { close: "关闭", cancel: "取消" });
const shade = "fixed inset-0 z-40 bg-overlay";
const panel = "fixed z-50 flex max-h-[90dvh] flex-col border border-line bg-surface shadow-overlay";
const centred = "top-1/2 left-1/2 w-[min(92vw,36rem)] -translate-x-1/2 -translate-y-1/2 rounded-lg";
const side = "inset-y-0 right-0 h-dvh max-h-none w-[min(100vw,40rem)] rounded-none border-y-0 border-r-0";

export interface DialogProps {
  open: boolean;
  onOpenChange: (open: boolean) => void;
  title: ReactNode;
  description?: ReactNode;
  /** The buttons at the bottom. */
  footer?: ReactNode;
  /** `side` is a sheet at the right edge for longer forms. */
  place?: "centre" | "side";
  className?: string;
  children: ReactNode;
}

export function Dialog({ open, onOpenChange, title, description, footer, place = "centre", className, children }: DialogProps): ReactNode {
  const t = useText(texts);
  return (
    <RadixDialog.Root open={open} onOpenChange={onOpenChange}>
      <RadixDialog.Portal>
        <RadixDialog.Overlay className={shade} />
        <RadixDialog.Content className={cn(panel, place === "side" ? side : centred, className)} {...(description === undefined ? { "aria-describedby": undefined } : {})}>
          <header className="flex items-start gap-3 border-b border-line px-4 py-2.5">
            <div className="min-w-0 flex-1 pt-1 wrap-anywhere">
              <RadixDialog.Title>{title}</RadixDialog.Title>
              {description === undefined ? null : <RadixDialog.Description className="text-muted">{description}</RadixDialog.Description>}
            </div>
            <RadixDialog.Close asChild>
              <Button kind="ghost" size="icon" aria-label={t("close")}><X aria-hidden /></Button>
            </RadixDialog.Close>
          </header>
          <div className="min-h-0 flex-1 overflow-y-auto p-4 scroll-thin">{children}</div>
          {footer === undefined ? null : <footer className="flex flex-wrap justify-end gap-2 border-t border-line px-4 py-3">{footer}</footer>}
        </RadixDialog.Content>
      </RadixDialog.Portal>
    </RadixDialog.Root>
  );
}

export interface ConfirmProps {
  trigger: ReactNode;
  /** The question. */
  title: string;
  /** What happens, in words. */
  children: ReactNode;
  /** The verb of the button that does it. */
  action: string;
  onConfirm: () => Promise<unknown>;
}

/** Asks before an action that destroys something. An error of the action stays in the dialog. */
export function Confirm({ trigger, title, children, action, onConfirm }: ConfirmProps): ReactNode {
  const t = useText(texts);
  const [open, setOpen] = useState(false);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>();
  const confirm = async (): Promise<void> => {
    setBusy(true);
    setError(undefined);
    try {
      await onConfirm();
      setOpen(false);
    } catch (failure) {
      setError(failure);
    } finally {
      setBusy(false);
    }
  };
  return (
    <AlertDialog.Root open={open} onOpenChange={setOpen}>
      <AlertDialog.Trigger asChild>{trigger}</AlertDialog.Trigger>
      <AlertDialog.Portal>
        <AlertDialog.Overlay className={shade} />
        <AlertDialog.Content className={cn(panel, centred, "gap-3 p-4")}>
          <AlertDialog.Title>{title}</AlertDialog.Title>
          <AlertDialog.Description asChild><div className="text-muted">{children}</div></AlertDialog.Description>
          {error === undefined ? null : <ErrorNote error={error} />}
          <div className="flex justify-end gap-2">
            <AlertDialog.Cancel asChild><Button>{t("cancel")}</Button></AlertDialog.Cancel>
            <Button kind="danger" busy={busy} onClick={() => void confirm()}>{action}</Button>
          </div>
        </AlertDialog.Content>
      </AlertDialog.Portal>
    </AlertDialog.Root>
  );
}

export interface MenuItem {
  label: ReactNode;
  icon?: ReactNode;
  danger?: boolean;
  disabled?: boolean;
  checked?: boolean;
  onSelect: () => void;
}

export function Menu({ trigger, items, align = "end", defaultOpen = false }: { trigger: ReactNode; items: readonly MenuItem[]; align?: "start" | "end"; defaultOpen?: boolean }): ReactNode {
  return (
    <DropdownMenu.Root modal={false} defaultOpen={defaultOpen}>
      <DropdownMenu.Trigger asChild>{trigger}</DropdownMenu.Trigger>
      <DropdownMenu.Portal>
        <DropdownMenu.Content align={align} sideOffset={4} collisionPadding={8} className="z-50 max-h-[60dvh] min-w-44 overflow-y-auto rounded-lg border border-line bg-surface p-1 shadow-overlay scroll-thin">
          {items.map((item, index) => (
            <DropdownMenu.Item
              key={index}
              disabled={item.disabled ?? false}
              onSelect={item.onSelect}
              className={cn("flex items-center gap-2 rounded-md px-2 py-1.5 outline-none data-disabled:opacity-50 data-highlighted:bg-raised", item.danger === true && "text-fail", item.checked === true && "font-medium text-accent-text")}
            >
              {item.icon}
              {item.label}
            </DropdownMenu.Item>
          ))}
        </DropdownMenu.Content>
      </DropdownMenu.Portal>
    </DropdownMenu.Root>
  );
}

export function Tooltip({ text, children }: { text: ReactNode; children: ReactNode }): ReactNode {
  return (
    <RadixTooltip.Provider delayDuration={300}>
      <RadixTooltip.Root>
        <RadixTooltip.Trigger asChild>{children}</RadixTooltip.Trigger>
        <RadixTooltip.Portal>
          <RadixTooltip.Content sideOffset={6} collisionPadding={8} className="z-50 max-w-xs rounded-md border border-line bg-surface px-2 py-1 text-sm shadow-overlay">{text}</RadixTooltip.Content>
        </RadixTooltip.Portal>
      </RadixTooltip.Root>
    </RadixTooltip.Provider>
  );
}
