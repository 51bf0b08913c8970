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
    # --- 运行 ---
    "conflict.run_not_live": ("运行不在此主机上进行", "只能修改进行中的运行"),
    "not_found.grant_expired": ("该运行的权限记录已按保留期删除", "请选择较新的运行"),
    "conflict.run_ended_before_revocation": ("运行已结束", "没有可撤销的权限"),
    "invalid_argument.text_too_long": ("文本超过 {limit} 字节", "请分成多条消息发送"),
    "invalid_argument.data_too_large": ("data 超过 {limit} 字节", "请改为发送引用"),
    "invalid_argument.event_name_length": ("{field} 为空或超过 {limit} 个字符", "请使用 1 到 {limit} 个字符"),
    "invalid_argument.event_name": ("{field} 无效：{problem}", "请换一个值"),
    "invalid_argument.event_id": ("{field} 无效：{problem}", "请发送平台使用的 ID"),
    "invalid_argument.too_many_elements": ("输入超过 {limit} 个元素", "请分成多条消息发送"),
    "invalid_argument.too_many_values": ("data 与输入合计超过 {limit} 个值", "请改为发送引用"),
    "invalid_argument.data_too_deep": ("data 的嵌套超过 {limit} 层", "请减少嵌套，或改为发送引用"),
    "conflict.run_ended_before_append": ("运行已结束", "请查看它的记录"),
    "unauthorized.run_not_external": ("此运行由工作进程执行", "只有外部运行接受结果"),
    "conflict.run_closed": ("运行已结束或正在停止", "请查看它的记录"),
    "invalid_argument.terminal_result": ("不能追加终止结果", "请提交到 …/finalize"),
    "conflict.result_changed": (
        "结果 {sequence} 已追加过，但内容不同",
        "请按 1、2、3 … 编号，重复提交时内容必须相同",
    ),
    "invalid_argument.result_out_of_order": ("下一个结果的编号应为 {expected}", "请按顺序追加结果"),
    "invalid_argument.stream_cursor": ("游标的格式不是 epoch.seq", "请发送流中最后一个 ID"),
}
