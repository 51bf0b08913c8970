"""Errors of runs, events, agents, delivery, channels, workers and the run API, by code and reason."""

from typing import Final

REASONS: Final[dict[str, tuple[str, str]]] = {
    # --- 事件 ---
    "not_found.no_binding": ("没有绑定接收此事件", "`bollard resolve` 会逐个绑定说明原因"),
    "not_found.no_agent": ("没有智能体 {agent}", "`bollard agents` 会列出所有智能体"),
    "worker_unavailable.runner_not_running": ("智能体 {agent} 的运行器未在运行", "请启动它的插件后重试"),
    "storage_full.disk_full": ("磁盘已满，不再接受新任务", "请清理数据目录所在的磁盘"),
    "conflict.conversation_busy": ("会话正忙", "等当前运行结束后重试"),
    "rate_limited.conversation_share_full": (
        "该会话已有 {limit} 个运行在排队，达到上限",
        "等待其中一些结束，或取消它们；其他会话不受影响",
    ),
    "rate_limited.caller_share_full": (
        "该调用者已有 {limit} 个运行在排队，达到上限",
        "等待其中一些结束，或取消它们；其他调用者不受影响",
    ),
    "rate_limited.agent_share_full": (
        "该智能体已有 {limit} 个运行在排队，达到上限",
        "等待其中一些结束，或取消它们；其他智能体不受影响",
    ),
    "draining.host_draining": ("主机正在停止或排空，不再接受新任务", "请稍后重试，或使用其他主机"),
    "rate_limited.queue_full": ("已有 {limit} 个运行在排队", "请稍后重试"),
    "rate_limited.no_room": ("主机暂时无法启动更多运行", "请稍后重试"),
    "rate_limited.earlier_messages_waiting": ("该会话较早的消息仍在分派", "请稍后重试"),
    "rate_limited.restoring_queue": ("主机仍在恢复重启前排队的运行", "请稍后重试"),
    "tool_failed.caller_ended": ("发起调用的运行已结束", "只有进行中的运行才能调用智能体"),
    "invalid_argument.agent_input": ("{field}：{problem}", "请参阅协议文档中的内容元素"),
    "tool_failed.agent_not_called": ("未能调用智能体 {agent}：{problem}", "请查看此运行的权限"),
    # --- 智能体的关卡 ---
    "unauthorized.sender_not_listed": (
        "智能体 {agent} 只回应名单上的人，发送者不在名单上",
        "请联系该智能体的管理员，把发送者加入名单",
    ),
    "rate_limited.sender_rate": ("智能体 {agent} 每分钟只接收同一发送者的 {limit} 条消息", "请在 {seconds} 秒后重试"),
    "budget_exceeded.runs_per_day": (
        "智能体 {agent} 已用完当天（UTC）的 {limit} 次运行",
        "请在 UTC 午夜后重试，或提高该智能体的 runs_per_day",
    ),
    "budget_exceeded.runs_at_once": (
        "智能体 {agent} 有 {runs} 个运行在进行，上限为 {limit}",
        "等一个运行结束后重试，或提高该智能体的 runs_at_once",
    ),
}
