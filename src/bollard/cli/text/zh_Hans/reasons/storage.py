"""Errors of store, log, audit, backup, secrets, files, settings and egress, by code and reason."""

from typing import Final

REASONS: Final[dict[str, tuple[str, str]]] = {
    "unauthenticated.token_required": (
        "此操作需要令牌",
        "发送 `Authorization: Bearer …`，使用 API 密钥或首次启动时打印的管理员令牌",
    ),
    # --- 设置 ---
    "settings.unknown_setting": ("没有设置项 {field}", "可用的设置项：{names}"),
    "settings.file_unreadable": ("无法读取 {file}：{problem}", "请改正该文件，或把它移走"),
    "settings.invalid_value": ("{field} 的值无效：{value}", "见 docs/reference/settings.md"),
    "settings.out_of_range": ("{field} 的值是 {value}", "请使用 {least} 到 {most} 之间的数"),
    "settings.days_out_of_range": ("{field} 的值是 {value}", "请使用 0 到 {most} 之间的天数"),
    "settings.seconds_out_of_range": ("{field} 的值是 {value}", "请使用 0 到 {most} 之间的秒数"),
    "settings.not_a_choice": ("{field} 的值是 {value}", "可选的值：{choices}"),
    "settings.otel_endpoint_not_url": ("otel_endpoint 的值是 {value}", "请使用 URL，例如 http://127.0.0.1:4318"),
    "settings.retention_before_archive": (
        "retention 会在 {days} 天后归档之前就丢弃 {kind}",
        "请减小 archive_days，或延长该记录类型的保留天数",
    ),
    "settings.witness_not_url": (
        "witness {value} 不是有效的 URL",
        "请使用 URL，例如 https://witness.example.org/heads",
    ),
    "settings.witness_takes_no_token": (
        "witness {value} 不是 URL，不需要令牌",
        "只为 URL 形式的 witness 设置 witness_token",
    ),
    "settings.witness_token_in_plain_text": (
        "witness {value} 会以明文收到令牌",
        "请使用 https://，或清空 witness_token",
    ),
    "settings.witness_inside_data": (
        "witness {value} 位于数据目录内",
        "witness_required 要求使用另一块磁盘上的文件，或一个 URL",
    ),
    "settings.tls_incomplete": ("缺少 {field}", "tls_cert 和 tls_key 必须同时设置"),
    "settings.not_a_host_name": (
        "allowed_hosts 中的 {value} 不是主机名",
        "请按 Host 请求头书写：小写、不带端口，例如 bollard.example.org",
    ),
    "settings.not_a_network": (
        "trusted_proxies 中的 {value} 不是地址或网段",
        "请使用地址或网段，例如 10.0.0.7,10.1.0.0/16",
    ),
    "settings.not_an_origin": (
        "origins 中的 {value} 不是有效的来源",
        "请使用小写、不带路径的来源，例如 https://bollard.example.org",
    ),
    "settings.exposed_without_tls": (
        "监听 {exposed} 会把未加密的 API 暴露给所有能访问本机的人",
        "请设置证书（--tls-cert 和 --tls-key）；位于 TLS 代理之后时，设置 "
        "origins=https://bollard.example.org；或只监听 127.0.0.1",
    ),
    "settings.retention_in_effect": (
        "retention 中的 {kind} 仍然有效，不能按时间丢弃",
        "请从 retention 中移除它；制品用 artifact_days，状态值用 ttl",
    ),
    "settings.unknown_record_type": ("retention 中的 {kind} 不是记录类型", "请使用记录类型，例如 {example}"),
    # --- 日志 ---
    "storage_unavailable.journal_closed": ("日志写入器已关闭", "主机正在停止；启动后再试"),
    "rate_limited.journal_behind": ("日志写入积压", "请稍后重试"),
    "storage_unavailable.journal_locked": ("另一个主机正在写入此数据目录", "请停止另一个主机，或使用其他目录"),
    "storage_unavailable.journal_start_timeout": (
        "日志进程没有及时启动",
        "请检查机器负载和磁盘速度，然后重新启动主机",
    ),
    "storage_unavailable.journal_process_ended": ("日志进程已结束", "主机将停止；请重新启动"),
    "storage_unavailable.store_failed": ("存储出错：{problem}", "请查看主机的日志"),
    "storage_unavailable.copy_incomplete": (
        "{copy} 在完成之前中断",
        "请重新导入同一个文件；恢复备份则需要空的数据库",
    ),
    "store_mismatch.row_differs": (
        "工作区 {workspace} 中保存的 {kind} {id} 与日志不一致",
        "请保留一份副本；`bollard log rebuild` 会从日志恢复这一行",
    ),
    "store_mismatch.row_missing": (
        "工作区 {workspace} 中保存的 {kind} {id} 在日志中，但数据库里缺少这一行",
        "请保留一份副本；`bollard log rebuild` 会从日志恢复这一行",
    ),
    "log_broken.saved_record_changed": (
        "链 {chain} 的第 {position} 条记录保存了一个资源，但已被改动：{problem}",
        "请保留一份副本，运行 `bollard audit verify`，再恢复备份；"
        "或把 broken_log 设为 {name} 以接受该记录，然后重新保存该资源",
    ),
    "log_broken.tail_changed": (
        "链 {chain} 的第 {position} 条记录被改动或丢失：{problem}",
        "请保留一份副本，运行 `bollard audit verify`，再恢复备份；或把 broken_log 设为 {name} 以在其后继续",
    ),
}
