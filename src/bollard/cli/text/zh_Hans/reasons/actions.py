"""Errors of actions, approvals, grants, capabilities, tools: the sentence and the hint, by code and reason."""

from typing import Final

_APPROVALS: Final = {
    "approval_denied.call_denied": ("{tool} 的调用被拒绝", "不用它继续，或询问允许做什么"),
    "approval_denied.no_approvers": (
        "{tool} 需要审批，但智能体 {agent} 没有审批人",
        "在智能体的 policy.audience.approve 中指定审批人",
    ),
    "approval_denied.requesting_run_ended": ("请求 {tool} 的运行已结束", "启动新的运行"),
    "approval_denied.run_ended": ("运行已结束，不再请求审批", "启动新的运行"),
    "approval_expired.not_approved_in_time": (
        "{tool} 的调用未及时获得审批",
        "等审批人在线时再请求，或调高智能体的 policy.approval.expires_s",
    ),
    "approval_required.call_changed": ("{tool} 的调用与已批准的不同", "让智能体重新请求"),
    "approval_required.waiting_disallowed": (
        "{tool} 需要审批，但智能体 {agent} 的策略不允许运行等待",
        "把智能体的 policy.approval.when_asked 设为 park",
    ),
    "audit_unavailable.approval_not_recorded": (
        "审批记录未能在 {seconds:g} 秒内写入磁盘",
        "磁盘过慢或已满；再次决定前请重新读取该审批",
    ),
    "capability_denied.approved_agent_gone": ("已批准的调用没有执行：智能体已不存在", "让智能体重新请求"),
    "capability_denied.approved_call_revoked": ("已批准的调用没有执行：该权限已从运行中撤销", "让智能体重新请求"),
    "capability_denied.approved_grant_changed": (
        "已批准的调用没有执行：运行的授权与批准时不同",
        "让智能体重新请求",
    ),
    "capability_denied.approved_graph_missing": (
        "已批准的调用没有执行：运行的能力清单已不在存储中",
        "让智能体重新请求",
    ),
    "conflict.already_allowed": ("该审批已批准", "重新读取该审批，查看结果"),
    "conflict.already_denied": ("该审批已拒绝", "重新读取该审批，查看结果"),
    "conflict.already_executed": ("该审批已批准，调用已执行", "重新读取该审批，查看结果"),
    "conflict.approval_over": ("该审批已过期，或运行不再等待它", "重新读取该审批，查看结果"),
    "conflict.approval_run_ended": ("该审批的运行已结束", "重新读取该审批"),
    "conflict.approval_run_ending": ("该审批的运行正在结束", "稍后再试"),
    "conflict.being_decided": ("另一个决定正在写入", "重新读取该审批，查看结果"),
    "conflict.digest_mismatch": ("这不是你看到的那个审批：摘要不同", "重新读取该审批，再作决定"),
    "conflict.question_run_ended": ("运行在问题得到回答前已结束", "启动新的运行"),
    "invalid_argument.answer_length": ("回答必须有 1 到 {most} 个字符", "缩短回答"),
    "invalid_argument.approval_unreadable": (
        "无法读取审批 {approval_id}：{problem}",
        "它由另一个版本的主机写入；请拒绝它",
    ),
    "invalid_argument.attachment_not_opened": (
        "inspected 为 true，但主机启动后你没有打开过附件 {number}",
        "用 `bollard approvals show` 打开它，或发送 inspected: false",
    ),
    "invalid_argument.inspected_missing": (
        "该审批有附件，但缺少 inspected",
        "打开附件并发送 inspected: true；若要批准没看过的内容，发送 inspected: false",
    ),
    "invalid_argument.not_a_choice": ("回答不在选项之中", "从这些选项中选择：{choices}"),
    "invalid_argument.secret_in_arguments": ("参数含有机密的值，不能显示", "以 secret:NAME 的形式引用它"),
    "not_found.no_approval": ("没有这个审批", "`bollard approvals` 会列出待处理的审批"),
    "not_found.no_question": ("没有这个问题", "它已得到回答、已过期，或运行已结束"),
    "rate_limited.approvals_too_large": (
        "工作区的待处理审批超过 {limit} 字节",
        "先处理这些审批：`bollard approvals` 会列出它们",
    ),
    "rate_limited.too_many_approvals": (
        "已有 {limit} 个待处理的审批",
        "先处理这些审批：`bollard approvals` 会列出它们",
    ),
    "rate_limited.too_many_questions": ("此运行已有 {limit} 个未回答的问题", "得到回答后再提下一个问题"),
    "tool_failed.question_run_ended": ("运行在问题得到回答前已结束", "启动新的运行"),
}

_CALLS: Final = {
    "approval_denied.no_approvers_on_host": ("{tool} 需要审批，但这台主机没有审批人", "在智能体的策略中指定审批人"),
    "audit_unavailable.call_not_recorded": ("无法记录该调用：{problem}", "用 `bollard doctor` 检查存储"),
    "audit_unavailable.call_not_recorded_in_time": (
        "该调用未能在 {seconds:g} 秒内写入记录，因此没有执行",
        "用 `bollard doctor` 检查存储，再换一个 id 重新调用",
    ),
    "budget_exceeded.budget_exceeded": (
        "预算（{budget}，{of}）为 {most}，此调用会超出预算",
        "调高智能体的 policy.budget，或等到第二天",
    ),
    "budget_exceeded.calls_per_run": ("一个运行最多调用 {most} 次", "结束该运行"),
    "budget_exceeded.tool_calls_per_run": ("一个运行最多调用 {tool} {most} 次", "使用之前的结果"),
    "cancelled.cancelled_before_call": ("调用在开始前被取消", "换一个 id 重新调用"),
    "cancelled.run_cancelled": ("运行正在取消，不再发起调用", "启动新的运行"),
    "capability_denied.flow_unattended": (
        "不能调用 {tool}：会同时涉及私密数据、不可信内容和对外发送；这需要审批，而此运行无人值守",
        "拆成几个运行，或在有人参与的会话中进行",
    ),
    "capability_denied.not_granted": ("运行没有 {tool} 的权限 {operation}", "在智能体的策略中写明它"),
    "capability_denied.unusable_schema": (
        "{tool} 的 schema 无法用于校验：{problem}",
        "请工具的作者提供更简单的 schema",
    ),
    "invalid_argument.call_id_other_arguments": ("调用 {call_id} 之前使用了其他参数", "新的调用请使用新的 id"),
    "invalid_argument.call_id_other_tool": ("调用 {call_id} 之前用于另一个工具", "新的调用请使用新的 id"),
    "invalid_argument.call_id_used": ("调用 {call_id} 之前执行过，其结果已不再保存", "新的调用请使用新的 id"),
    "invalid_argument.invalid_arguments": ("{field}：{problem}", "用 tools.detail 查看 schema"),
    "not_found.run_ended": ("没有这个运行", "它已结束"),
    "not_found.run_owned_elsewhere": ("没有这个运行", "它属于另一台主机"),
    "outcome_unknown.adapter_failed": ("{tool} 失败：{problem}", "查看主机的日志"),
    "outcome_unknown.cancelled_during_call": ("调用在得到结果前被取消", "检查它做了什么"),
    "outcome_unknown.output_too_large": ("{tool} 的输出超过 {most} 字节，结果已丢弃", "每次少请求一些"),
    "outcome_unknown.result_not_processed": (
        "无法处理 {tool} 的结果：{problem}",
        "查看主机的日志；重复调用前，先检查它是否已生效",
    ),
    "outcome_unknown.timed_out": ("{tool} 没有在 {seconds:g} 秒内结束", "重复调用前，先检查它是否已生效"),
    "rate_limited.source_rate": ("对 {source} 的调用过于频繁", "稍后重试"),
    "revoked.capability_revoked": ("该权限已在运行期间撤销", "启动新的运行"),
    "storage_full.disk_full_for_call": ("磁盘已满：调用未能记录，因此没有执行", "清理数据目录所在的磁盘"),
    "tool_failed.no_longer_offered": (
        "{tool} 与授权时的定义不同，或已不可用",
        "查看 `bollard capabilities explain`，并启动新的运行",
    ),
    "tool_failed.no_time_left": ("运行的剩余时间不够再次调用", "给智能体的运行更多时间"),
    "tool_failed.timed_out": ("{tool} 没有在 {seconds:g} 秒内结束", "每次少请求一些"),
}

_TOOLS: Final = {
    "invalid_argument.argument_not_boolean": ("{field} 必须是 true 或 false", "查看工具的 schema"),
    "invalid_argument.argument_not_integer": ("{field} 必须是整数", "查看工具的 schema"),
    "invalid_argument.argument_not_text": ("{field} 必须是文本", "查看工具的 schema"),
    "not_found.no_builtin_tool": ("没有内置工具 {tool}", "调用运行有权限的工具"),
    "outcome_unknown.program_lost": ("与程序失去联系：{problem}", "检查它的文件"),
    "sandbox_unavailable.confinement_unavailable": ("无法隔离程序：{problem}", "用 `bollard doctor` 检查沙箱"),
    "tool_failed.choices_not_list": ("choices 必须是列表", "查看工具的 schema"),
    "tool_failed.jail_failed": ("程序未能启动：{problem}", "用 `bollard doctor` 检查沙箱"),
    "tool_failed.no_disk_for_programs": ("主机的磁盘空间不足，无法运行程序", "清理数据目录所在的磁盘"),
    "tool_failed.run_files_inaccessible": ("无法访问运行的文件：{problem}", "检查磁盘"),
    "tool_failed.run_id_unusable": ("此运行不能使用文件", ""),
    "tool_failed.too_many_programs": ("主机上正在运行的程序过多", "稍后重试"),
}
_GRANTS: Final = {
    "capability_denied.operation_not_granted": (
        "运行有权使用 {tool}，但没有权限 {operation}",
        "在智能体的策略和运行器的清单中写明 {operation}",
    ),
    "invalid_argument.calls_too_deep": (
        "运行 {run_id} 已嵌套 {depth} 层，不能再调用智能体",
        "智能体调用最多嵌套 {most} 层",
    ),
    "invalid_argument.foreign_scope": ("子运行的 {field} 与父运行不同", "使用父运行的值，或留空"),
    "invalid_argument.grant_unreadable": ("无法解码授权：{problem}", "使用 grant.issued 记录的数据"),
    "invalid_argument.graph_digest_mismatch": ("存储的能力清单与授权时的不同：摘要不同", "从备份恢复数据库"),
    "invalid_argument.graph_unreadable": ("无法解码存储的能力清单：{problem}", "启动写入它的那个主机版本"),
    "invalid_argument.graph_version_mismatch": (
        "此版本的主机对存储的能力清单编码不同",
        "启动写入它的那个主机版本",
    ),
    "invalid_argument.never_granted": ("运行 {run_id} 从未获得 {missing} 的权限", "已有的权限：{granted}"),
    "invalid_argument.nothing_to_revoke": ("请求没有写明要撤销什么", "写明 operations、resources 或 everything"),
    "invalid_argument.revocation_unreadable": ("无法解码撤销数据：{problem}", "使用 grant.revoked 记录的数据"),
    "not_found.no_tool": ("此运行没有这个工具", "调用运行的 resources 中的工具"),
}

REASONS: Final[dict[str, tuple[str, str]]] = {**_APPROVALS, **_CALLS, **_TOOLS, **_GRANTS}
