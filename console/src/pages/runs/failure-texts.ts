import { catalogue } from "@/i18n/i18n";

/** What to do about a run that failed, by its failure code. */
export const failureHints = catalogue(
  {
    "runner.error": "The log of the plugin {plugin} says more.",
    model: "The model {model} did not answer. Test it, or give the agent a model to fall back to.",
    "runner.timeout": "Raise the deadline of the agent, or ask for less at once.",
    "runner.crashed": "The host has restarted the worker of the plugin {plugin}. Its log says more. Then send the message again.",
    "runner.no_output": "The runner of the plugin {plugin} has a defect: it ended without an answer. Its log may say more.",
    "runner.protocol": "The plugin {plugin} does not follow the protocol. Update it, or test it with `bollard conformance`.",
    "runner.output_too_large": "Raise the setting run_output_mib, or ask for less at once.",
    cancelled: "Nothing is left to do. Send the message again if it was stopped by mistake.",
    revoked: "An operator took the permissions of the run away. Ask them before you send the message again.",
    budget_exceeded: "Raise the budget of the agent, or wait until the next day.",
    "host.lost": "The host stopped during the run. Send the message again.",
    "host.overloaded": "The host had no room for the run, or the plugin {plugin} has no worker. Look at the plugin, then send the message again.",
    other: "The records below show what happened last.",
  },
  {
    "runner.error": "插件 {plugin} 的日志里有更多信息。",
    model: "模型 {model} 没有应答。请测试该模型，或为智能体设置备用模型。",
    "runner.timeout": "请提高智能体的时限，或一次少做一些。",
    "runner.crashed": "主机已重启插件 {plugin} 的工作进程，日志里有更多信息。之后请重新发送消息。",
    "runner.no_output": "插件 {plugin} 的运行器有缺陷：没有回答就结束了。日志里可能有更多信息。",
    "runner.protocol": "插件 {plugin} 没有遵守协议。请更新插件，或用 `bollard conformance` 测试。",
    "runner.output_too_large": "请提高设置 run_output_mib，或一次少做一些。",
    cancelled: "无需处理。如果是误停，请重新发送消息。",
    revoked: "运维人员撤销了运行的权限。重新发送消息前请先联系他们。",
    budget_exceeded: "请提高智能体的预算，或等到第二天。",
    "host.lost": "主机在运行期间停止了。请重新发送消息。",
    "host.overloaded": "主机没有空位，或插件 {plugin} 没有工作进程。请检查插件，然后重新发送消息。",
    other: "下面的记录显示最后发生了什么。",
  },
);
export type FailureHint = keyof (typeof failureHints)["en"];

export function hintOf(code: string, failedModel: string | undefined): FailureHint {
  if (code === "runner.error" && failedModel !== undefined) return "model";
  return code in failureHints.en ? (code as FailureHint) : "other";
}
