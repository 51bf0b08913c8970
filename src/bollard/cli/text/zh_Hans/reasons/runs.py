"""Errors of runs, events, agents, delivery, channels, workers and the run API, by code and reason."""

from typing import Final

REASONS: Final[dict[str, tuple[str, str]]] = {
    # --- 事件 ---
    "worker_unavailable.runner_not_running": ("智能体 {agent} 的运行器未在运行", "请启动它的插件后重试"),
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
    # --- 运行 API ---
    "not_found.no_artifact_content": ("制品的内容不在此处", "请使用其他制品"),
    "tool_failed.artifact_refused": ("制品被拒绝：{problem}", "请换一个名称或媒体类型"),
    "tool_failed.artifacts_of_ended_run": ("运行已结束，工具无法再访问它的制品", "请启动新的运行"),
    "not_found.run_ended": ("没有这个运行", "该运行已结束"),
    # --- 智能体与绑定 ---
    "invalid_argument.thread_without_conversation": ("binding.scope.thread：线程属于会话", "请同时指定会话"),
    "invalid_argument.filtered_twice": ("binding.filters：{name} 过滤了两次", "请把它的值放进同一个过滤条件"),
    "invalid_argument.no_trigger": ("binding.filters：没有这个触发来源", "可用的有 {names}"),
    "invalid_argument.filter_outside_scope": (
        "binding.filters：在此范围内 {name} 始终是 {value}",
        "请去掉对 {name} 的过滤，或放宽范围",
    ),
    "conflict.bindings_clash": (
        "绑定 {binding} 与 {other} 会匹配同一事件，且没有先后之分",
        "请为其中一个设置不同的优先级、更窄的范围，或再加一个过滤条件",
    ),
    "invalid_argument.no_such_secret": ("{field} 引用的机密不存在", "请直接填写值"),
    "invalid_argument.no_secret": ("{field} 引用的机密 {secret} 不存在", "请先设置：`bollard secrets set {secret}`"),
    "conflict.agent_bound": ("智能体 {agent} 接收 {bindings} 的事件", "请先删除这些绑定，或改绑到其他智能体"),
    "not_found.agent_not_found": ("没有这个智能体", "`bollard agents` 会列出所有智能体"),
    "conflict.agent_of_plugin": ("智能体 {agent} 属于插件，不能删除", "保存一个同名的智能体即可覆盖它"),
    "not_found.binding_not_found": ("没有这个绑定", "`bollard bindings` 会列出所有绑定"),
    "invalid_argument.binding_agent": (
        "binding.agent_id：没有智能体 {agent}",
        "`bollard agents` 会列出所有智能体；请先保存智能体",
    ),
    "invalid_argument.no_runner": ("agent.runner_id：没有运行器 {runner}", "可用的有 {names}"),
    "invalid_argument.no_runners": ("agent.runner_id：没有运行器 {runner}", "目前没有插件提供运行器，请先启动一个"),
    "conflict.agent_revision": (
        "智能体 {agent} 已是修订 {revision}，而编辑的是修订 {edited}",
        "请重新读取智能体，再次修改",
    ),
    "invalid_argument.resource_pattern": (
        "{field}：{name} 是通配模式，不支持；请用 ID 指定每个资源",
        "`bollard capabilities` 会列出 ID",
    ),
    "invalid_argument.runner_id": (
        "agent.runner_id：{runner} 不是运行器 ID",
        "运行器 ID 的格式是 plugin:author/name/runner",
    ),
    "invalid_argument.agent_time": ("智能体 {agent} 的 {field} 为 {value}", "请使用 0 到 {limit} 之间的秒数"),
    "conflict.lane_busy": ("运行 {run} 无法启动：会话正忙", "请让该运行排队"),
    "conflict.run_in_lane": ("运行 {run} 已在会话中", "每个运行只能加入一次"),
    "invalid_argument.rate": ("速率的 {field} 为 {value}", "请使用不小于 1 的整数"),
    "invalid_argument.invalid_field": ("{field}：{problem}", "请改正此字段后重新保存"),
    "invalid_argument.gate_actors_unused": (
        "policy.gate.actors 列出了名单，但 policy.gate.talk 允许所有人与智能体对话",
        '请把 talk 设为 "listed"，或清空 actors',
    ),
    "invalid_argument.gate_burst_unused": (
        "设置了 policy.gate.burst，但没有设置 policy.gate.messages_per_minute",
        "请同时设置 messages_per_minute，或去掉 burst",
    ),
    "invalid_argument.audience_actors_unused": (
        "{field} 列出了名单，但 policy.audience.{name}.who 是 {who}",
        '请把 who 设为 "listed"，或清空 actors',
    ),
    "invalid_argument.no_role": ("{field}：没有角色 {role}", "可用的角色有 {names}"),
    "invalid_argument.invalid_config": ("配置无效：{problem}", "请改正后重新保存"),
    "invalid_argument.unknown_files": ("文件不存在：{problem}", "`bollard files list` 会列出文件；请先上传"),
    # --- 渠道与工作进程 ---
    "tool_failed.channel_gone": ("渠道 {channel} 已不存在", "`bollard channels` 会列出所有渠道"),
    "tool_failed.channel_rejected": ("渠道 {channel} 拒绝了消息：{problem}", "请检查该渠道"),
    "outcome_unknown.channel_unconfirmed": (
        "渠道 {channel} 没有确认消息：{problem}",
        "重新发送前请先确认消息是否已送达",
    ),
    "worker_unavailable.quarantined": (
        "插件 {plugin} 已被隔离：{problem}",
        "请查看 `bollard plugin logs {plugin}`，或运行 `bollard plugin check`",
    ),
    "worker_unavailable.no_worker": (
        "插件 {plugin} 没有就绪的工作进程",
        "请查看 `bollard plugin logs {plugin}`，或运行 `bollard plugin check`",
    ),
}
