/** What the palette does besides going somewhere. An action that the person may not do is not there. */
import { Bot, Cpu, Languages, LibraryBig, LogOut, MessageSquarePlus, Monitor, Moon, Sun, type LucideIcon } from "lucide-react";
import { useMemo } from "react";
import { useSession, type Right } from "@/api/session";
import { catalogue, useLanguage, useText } from "@/i18n/i18n";
import type { Target } from "./palette-match";
import { signOut } from "./sign-out";
import { THEMES, useTheme } from "./theme";

const texts = catalogue(
  {
    newConversation: "Start a conversation", newAgent: "Create an agent", addModel: "Add a model", install: "Install from the catalogue",
    light: "Use the light theme", dark: "Use the dark theme", system: "Use the theme of the device", language: "切换到中文", signOut: "Sign out",
  },
  {
    newConversation: "开始新会话", newAgent: "创建智能体", addModel: "添加模型", install: "从目录安装",
    light: "使用浅色主题", dark: "使用深色主题", system: "主题跟随设备", language: "Switch to English", signOut: "退出登录",
  },
);
type Name = keyof (typeof texts)["en"];

const PLACES: readonly { name: Name; icon: LucideIcon; path: string; right: Right }[] = [
  { name: "newConversation", icon: MessageSquarePlus, path: "/chat", right: "runs.create" },
  { name: "newAgent", icon: Bot, path: "/agents?add=new", right: "agents.write" },
  { name: "addModel", icon: Cpu, path: "/models?add=new", right: "models.write" },
  { name: "install", icon: LibraryBig, path: "/catalogue", right: "plugins.write" },
];
const THEME_ICONS = { light: Sun, dark: Moon, system: Monitor } as const;

export function useActions(): Target[] {
  const t = useText(texts);
  const { may } = useSession();
  const { language, setLanguage } = useLanguage();
  const [theme, setTheme] = useTheme();
  return useMemo(() => {
    const named = (name: Name, Icon: LucideIcon): Omit<Target, "path" | "act"> => ({ id: `do-${name}`, kind: "action", name: t(name), icon: <Icon aria-hidden />, also: `${texts.en[name]} ${texts.zh[name]}` });
    return [
      ...PLACES.filter(({ right }) => may(right)).map(({ name, icon, path }): Target => ({ ...named(name, icon), path })),
      ...THEMES.filter((each) => each !== theme).map((each): Target => ({ ...named(each, THEME_ICONS[each]), act: () => setTheme(each) })),
      { ...named("language", Languages), act: () => setLanguage(language === "zh" ? "en" : "zh") },
      { ...named("signOut", LogOut), act: signOut },
    ];
  }, [t, may, language, setLanguage, theme, setTheme]);
}
