import { Tabs as Radix } from "radix-ui";
import type { ReactNode } from "react";

export interface Tab {
  id: string;
  name: ReactNode;
  content: ReactNode;
}

export function Tabs({ tabs, value, onChange }: { tabs: readonly Tab[]; value?: string; onChange?: (id: string) => void }): ReactNode {
  const chosen = value === undefined ? { defaultValue: tabs[0]?.id ?? "" } : { value };
  return (
    <Radix.Root {...chosen} {...(onChange === undefined ? {} : { onValueChange: onChange })}>
      <Radix.List className="flex gap-4 overflow-x-auto border-b border-line scroll-thin">
        {tabs.map((tab) => (
          <Radix.Trigger key={tab.id} value={tab.id} className="-mb-px rounded-t-sm border-b-2 px-0.5 -outline-offset-2 border-transparent py-2 whitespace-nowrap text-muted hover:text-text data-[state=active]:border-accent data-[state=active]:text-text">
            {tab.name}
          </Radix.Trigger>
        ))}
      </Radix.List>
      {tabs.map((tab) => (
        <Radix.Content key={tab.id} value={tab.id} className="pt-4">{tab.content}</Radix.Content>
      ))}
    </Radix.Root>
  );
}
