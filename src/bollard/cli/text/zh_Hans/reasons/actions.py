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

REASONS: Final[dict[str, tuple[str, str]]] = {**_APPROVALS}
