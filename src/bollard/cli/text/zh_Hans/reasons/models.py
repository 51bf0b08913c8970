"""Errors of models and knowledge: the sentence and the hint, by code and reason."""

from typing import Final

REASONS: Final[dict[str, tuple[str, str]]] = {
    # --- models ---
    "invalid_argument.model_type_of_style": (
        "{field}：格式 {style} 提供的是 {type} 类型的模型",
        "请去掉它，或写 {type}",
    ),
    "invalid_argument.model_extra_args_too_large": ("{field}：超过 {most} 字节", "请改为随调用发送其中一部分"),
    "invalid_argument.model_without_tokens": ("{field}：不适用于 {type} 类型的模型", "请使用 requests_per_minute"),
    "invalid_argument.model_base_url_invalid": ("{field} 无效：{problem}", "{advice}"),
    "invalid_argument.model_field_missing": (
        "{field}：必须填写",
        "请填写含 API 版本的 base_url，以及模型在提供方的名称",
    ),
    "invalid_argument.model_header_reserved": ("{field}：由主机设置", "请去掉它；密钥用 `secret` 指定机密的名称"),
    "invalid_argument.model_header_secret": (
        "{field}：看起来是明文机密",
        "请用 `bollard secrets set NAME` 保存，并在 `secret` 中写上名称",
    ),
    "invalid_argument.model_argument_reserved": (
        "模型 {model} 的 extra_args 含有 {argument}，它由每次调用自行设置",
        "请从 extra_args 中去掉 {argument}",
    ),
    "rate_limited.rate_limited": (
        "模型 {model} 的调用过多",
        "请稍后重试，或提高该模型的 at_once、requests_per_minute 或 tokens_per_minute",
    ),
    "tool_failed.model_is_no_tool": ("{capability} 是模型，不是工具", "请用 models.invoke 调用"),
    "egress_denied.provider_host_invalid": ("模型提供方的地址无效：{problem}", "请把 base_url 设为提供方的地址"),
    "egress_denied.provider_without_address": ("{host} 没有地址：{problem}", "请把 base_url 设为提供方的地址"),
    "egress_denied.provider_address_denied": (
        "{host}：不允许使用地址 {address}",
        "请把 base_url 设为提供方的地址",
    ),
    # --- failures of providers: the reason is the category that runners see ---
    "model_failed.rate_limited": ("模型提供方限流", "请减少请求，或在提供方提高限额"),
    "model_failed.overloaded": ("模型提供方暂时无法服务", "请稍后重试，或配置备用模型"),
    "model_failed.timeout": ("模型没有及时回答", "请稍后重试，或提高该模型的超时时间"),
    "model_failed.unreachable": ("无法连接模型提供方", "请检查 base_url，以及主机到提供方的网络"),
    "model_failed.unauthorized": ("模型提供方拒绝了密钥，或密钥不可用", "请检查保存密钥的机密，以及在提供方的账户"),
    "model_failed.invalid_request": ("模型提供方不接受该请求", "请检查模型名称和调用参数"),
    "model_failed.context_length": ("内容超过了模型的上下文窗口", "请缩短历史，或使用上下文窗口更大的模型"),
    "model_failed.content_filter": ("模型提供方拦截了该内容", "请换一种说法"),
    "model_failed.broken_answer": ("无法解析模型提供方的回答", "请检查 base_url 的端点是否使用所配置的格式"),
    "model_failed.not_supported": ("模型不支持该操作", "请使用支持它的模型"),
    # --- knowledge bases ---
    "invalid_argument.question_empty": ("{field}：问题为空", "请输入问题"),
    "invalid_argument.question_too_long": ("{field}：问题超过 {most} 个字符", "请缩短问题"),
    "invalid_argument.question_too_large": ("问题过长", "请不要超过 {most} 字节"),
    "invalid_argument.top_k_out_of_range": ("top_k 为 {top_k}", "请使用 1 到 {most}"),
    "invalid_argument.too_many_filters": ("{field}：筛选条件超过 {most} 个", "请去掉一些"),
    "invalid_argument.filter_values": ("{field}：没有值，或超过 {most} 个", "请给出一个值或允许值的列表"),
    "invalid_argument.filter_value_type": ("{field}：不是文本、数字或布尔值", "请使用不超过 {most} 个字符的值"),
    "invalid_argument.metadata_name": ("{field}：有名称不是 1 到 {most} 个字符", "请换一个名称"),
    "invalid_argument.metadata_nested": ("{field}：既不是值也不是值的列表", "请不要嵌套"),
    "invalid_argument.metadata_too_large": ("{field}：超过 {most} 个值或 {most_bytes} 字节", "请写进文档里"),
    "invalid_argument.knowledge_file_unusable": ("这不是知识库的文档：{problem}", "请重新导出"),
    "payload_too_large.document_or_metadata_too_large": ("文档或其元数据过大", "请不要超过 {most} 字节"),
    "not_found.no_knowledge_base": ("知识库 {kb_id} 不存在", "请先创建"),
    "not_found.no_document": ("文档 {document_id} 不存在", "请列出知识库的文档"),
    "tool_failed.knowledge_base_is_no_tool": ("{capability} 不是工具", "请用 knowledge.retrieve 检索"),
    "knowledge_unavailable.no_answer": ("知识库进程没有及时应答", "请重试；进程会自动重启"),
    "knowledge_unavailable.unexpected_answer": ("知识库进程的应答不符合预期", "请重试；进程会自动重启"),
    "knowledge_unavailable.host_stopping": ("主机正在停止", "请在主机恢复后重试"),
    "knowledge_unavailable.restarting": ("知识库进程出错：{problem}", "请在 {seconds} 秒后进程重启时重试"),
    "knowledge_unavailable.not_installed": (
        "主机上没有安装知识库所需的软件包",
        "pip install 'bollard[knowledge]'，然后重启主机",
    ),
    "knowledge_unavailable.cannot_start": ("知识库进程无法启动：{problem}", "请重试；进程会自动重启"),
    "knowledge_unavailable.start_timeout": ("知识库进程没有及时启动", "请重试；进程会自动重启"),
    "knowledge_unavailable.process_died": ("知识库进程已退出", "请重试；进程会自动重启"),
    "knowledge_unavailable.internal": ("知识库进程出错：{problem}", ""),
    "knowledge_unavailable.data_unusable": ("无法使用数据目录：{problem}", "请检查其权限"),
    "knowledge_unavailable.data_in_use": ("另一个进程正在使用此数据目录的知识库文件", "请停止另一台主机，或换一个目录"),
    "knowledge_unavailable.database_in_use": ("另一台主机正在使用此数据库的知识库表", "请使用那台主机，或停止它"),
    "knowledge_unavailable.schema_too_new": ("知识库表由更新版本的 Bollard 创建", "请启动该版本或更新的版本"),
    "knowledge_unavailable.database_failed": ("知识库数据库出错：{problem}", "请检查数据库服务器"),
    "knowledge_unavailable.file_failed": ("知识库文件出错：{problem}", "请检查磁盘、空间和权限"),
    "knowledge_unavailable.pgvector_removed": ("服务器上的 pgvector 已被移除", "请重试；文档会重新索引"),
}
