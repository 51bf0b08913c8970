/** What a plugin asks for, in sentences. */
import { Cpu, FilePen, FileText, Globe, KeyRound, MemoryStick, ShieldAlert, ShieldCheck, SquareTerminal, Wrench, type LucideIcon } from "lucide-react";
import type { ReactNode } from "react";
import { catalogue, useText } from "@/i18n/i18n";
import { RiskBadge } from "@/parts/risk-badge";

export interface Asks {
  runners: Readonly<Record<string, unknown>>;
  env: readonly string[];
  tools: Readonly<Record<string, unknown>>;
  command?: readonly string[];
  sandbox?: Sandbox;
}

/** What the workers need beyond nothing. */
interface Sandbox {
  network?: string | readonly string[];
  read?: readonly string[];
  write?: readonly string[];
  memory_mib?: number;
  cpu?: number;
}

const permissionTexts = catalogue(
  {
    "models.invoke": "Asks models and waits for the whole answer.", "models.stream": "Asks models and reads the answer as it arrives.", "models.rerank": "Sorts texts with a model.",
    "models.embed": "Turns texts into vectors with a model.", "tools.detail": "Reads the definitions of tools.", "tools.call": "Calls tools.", "knowledge_bases.list": "Lists knowledge bases.",
    "knowledge_bases.retrieve": "Searches knowledge bases.", "history.page": "Reads earlier messages of the conversation.", "history.search": "Searches earlier messages of the conversation.",
    "events.get": "Reads the event that started the run.", "events.page": "Reads events of the conversation.", "artifacts.metadata": "Lists files that runs made.", "artifacts.read": "Reads files that runs made.",
    "artifacts.write": "Makes files.", "storage.plugin": "Keeps values of its own.", "storage.workspace": "Keeps values that the whole workspace shares.", "files.config": "Reads files of its settings.",
    "files.knowledge": "Reads documents of knowledge bases.", "agents.call": "Starts other agents.", "platform.request": "Sends requests to the platform of a channel.",
  },
  {
    "models.invoke": "调用模型，等待完整回答。", "models.stream": "调用模型，流式读取回答。", "models.rerank": "用模型对文本排序。",
    "models.embed": "用模型把文本变成向量。", "tools.detail": "读取工具的定义。", "tools.call": "调用工具。", "knowledge_bases.list": "列出知识库。",
    "knowledge_bases.retrieve": "检索知识库。", "history.page": "读取会话中较早的消息。", "history.search": "搜索会话中较早的消息。",
    "events.get": "读取启动运行的事件。", "events.page": "读取会话的事件。", "artifacts.metadata": "列出运行产生的文件。", "artifacts.read": "读取运行产生的文件。",
    "artifacts.write": "生成文件。", "storage.plugin": "保存自己的数据。", "storage.workspace": "保存整个工作区共享的数据。", "files.config": "读取其设置中的文件。",
    "files.knowledge": "读取知识库的文档。", "agents.call": "启动其他智能体。", "platform.request": "向渠道的平台发送请求。",
  },
);
type Sentence = keyof (typeof permissionTexts)["en"];

/** A permission in a sentence, such as `tools.call`. */
export function usePermissionText(): (permission: string) => string {
  const t = useText(permissionTexts);
  return (permission) => (permission in permissionTexts.en ? t(permission as Sentence) : permission);
}

const texts = catalogue(
  {
    runner: "Runner {name}", nothing: "Asks for nothing of a run.", env: "Reads the variable {name} of the host.", tool: "Offers the tool {name}.", command: "Runs the program {command}.",
    limit: "A run gets a permission only if the policy of its agent gives it too.", none: "This plugin asks for nothing.", process: "Its code runs in processes of its own, confined to what is listed here. The page Settings shows how well this host confines.",
    network_none: "Asks for no network.", network_open: "Reaches every public address of the network.", network_names: "Reaches these names over the network: {names}.",
    env_elsewhere: "Reads the variable {name} of its machine.", process_elsewhere: "Its code runs on another machine, confined as far as that machine can.",
    read_elsewhere: "Reads {path} on its machine.", write_elsewhere: "Reads and writes {path} on its machine.",
    read: "Reads {path} on the host.", write: "Reads and writes {path} on the host.", memory: "Each worker may use {count} MiB of memory.", cpu: "Each worker may use {count} processors.",
  },
  {
    runner: "运行器 {name}", nothing: "不需要运行的任何权限。", env: "读取主机的环境变量 {name}。", tool: "提供工具 {name}。", command: "运行程序 {command}。",
    limit: "只有智能体的策略也给予某项权限，运行才会得到它。", none: "该插件不需要任何权限。", process: "它的代码在自己的进程中运行，只能使用这里列出的内容。“设置”页显示本主机的隔离级别。",
    network_none: "不需要网络。", network_open: "访问网络上的所有公网地址。", network_names: "访问网络上的这些域名：{names}。",
    env_elsewhere: "读取所在机器的环境变量 {name}。", process_elsewhere: "它的代码在另一台机器上运行，隔离程度取决于那台机器。",
    read_elsewhere: "读取所在机器上的 {path}。", write_elsewhere: "读写所在机器上的 {path}。",
    read: "读取主机上的 {path}。", write: "读写主机上的 {path}。", memory: "每个工作进程最多使用 {count} MiB 内存。", cpu: "每个工作进程最多使用 {count} 个处理器。",
  },
);

/** `isElsewhere`: the code runs on the machine of a runtime, which confines it as far as that machine can. */
export function PluginAsks({ asks, isElsewhere = false }: { asks: Asks; isElsewhere?: boolean }): ReactNode {
  const t = useText(texts);
  const says = usePermissionText();
  return (
    <div className="flex flex-col gap-4">
      <ul className="flex flex-col gap-1.5">
        <Line icon={ShieldAlert}>{t(isElsewhere ? "process_elsewhere" : "process")}</Line>
        {asks.command === undefined ? null : <Line icon={SquareTerminal}>{t("command", { command: asks.command.join(" ") })}</Line>}
        <Needs sandbox={asks.sandbox ?? {}} isElsewhere={isElsewhere} />
        {asks.env.map((name) => <Line key={name} icon={KeyRound}>{t(isElsewhere ? "env_elsewhere" : "env", { name })}</Line>)}
        {Object.entries(asks.tools).map(([name, claims]) => (
          <Line key={name} icon={Wrench}>{t("tool", { name })} <RiskBadge risk={riskOf(claims)} /></Line>
        ))}
      </ul>
      {Object.entries(asks.runners).map(([name, permissions]) => (
        <section key={name}>
          <h3 className="mb-1 wrap-anywhere">{t("runner", { name })}</h3>
          <ul className="flex flex-col gap-1.5">
            {listOf(permissions).map((each) => <Line key={each} icon={ShieldCheck} title={each}>{says(each)}</Line>)}
            {listOf(permissions).length === 0 ? <li className="text-muted">{t("nothing")}</li> : null}
          </ul>
        </section>
      ))}
      <p className="text-sm text-muted">{t("limit")}</p>
    </div>
  );
}

function Needs({ sandbox, isElsewhere }: { sandbox: Sandbox; isElsewhere: boolean }): ReactNode {
  const t = useText(texts);
  const { network = "none", read = [], write = [], memory_mib: memory, cpu } = sandbox;
  const reach = network === "none" ? t("network_none") : network === "open" ? t("network_open") : t("network_names", { names: [network].flat().join(", ") });
  return (
    <>
      <Line icon={Globe}>{reach}</Line>
      {read.map((path) => <Line key={path} icon={FileText}>{t(isElsewhere ? "read_elsewhere" : "read", { path })}</Line>)}
      {write.map((path) => <Line key={path} icon={FilePen}>{t(isElsewhere ? "write_elsewhere" : "write", { path })}</Line>)}
      {memory === undefined ? null : <Line icon={MemoryStick}>{t("memory", { count: memory })}</Line>}
      {cpu === undefined ? null : <Line icon={Cpu}>{t("cpu", { count: cpu })}</Line>}
    </>
  );
}

function Line({ icon: Icon, title, children }: { icon: LucideIcon; title?: string; children: ReactNode }): ReactNode {
  return (
    <li className="flex items-start gap-2" title={title}>
      <Icon aria-hidden className="mt-[3px] shrink-0 text-muted" />
      <span className="min-w-0 wrap-anywhere">{children}</span>
    </li>
  );
}

function listOf(value: unknown): string[] {
  return Array.isArray(value) ? value.map(String) : [];
}

/** `high, never sends_out` → `high`. */
function riskOf(claims: unknown): string {
  return String(claims).split(",")[0] ?? "";
}
