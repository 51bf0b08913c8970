"""Errors of store, log, audit, backup, secrets, files, settings and egress, by code and reason."""

from typing import Final

REASONS: Final[dict[str, tuple[str, str]]] = {
    "not_found.no_such_run": ("没有这个运行", "`bollard runs` 会列出最新的运行"),
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
    # --- 存储 ---
    "settings.database_not_postgres_url": (
        "数据库不是 PostgreSQL 地址",
        "请使用 postgresql://user@host/name，或留空",
    ),
    "settings.postgres_missing": ("PostgreSQL 需要安装附加依赖 `postgres`", "pip install 'bollard[postgres]'"),
    "settings.database_not_utf8": (
        "数据库的编码是 {encoding}，无法保存所有字符",
        "请用 createdb --encoding=UTF8 --template=template0 NAME 新建数据库",
    ),
    "settings.not_a_media_type": (
        "artifact_mime_types 中的 {value} 不是媒体类型",
        "请使用媒体类型，例如 text/plain、image/* 或 */*",
    ),
    "storage_unavailable.key_unusable": ("无法使用密钥 {path}：{problem}", "{advice}"),
    "storage_unavailable.key_not_writable": ("无法写入 {file}：{problem}", "请让当前用户可以写入数据目录"),
    "storage_unavailable.blobs_unusable": ("无法使用文件存储：{problem}", "请检查数据目录：磁盘、所有者和多余的链接"),
    "storage_unavailable.readers_busy": ("所有读连接都在使用中", "请稍后重试"),
    "storage_unavailable.store_closed": ("存储已关闭", "主机正在停止"),
    "storage_unavailable.writer_busy": ("另一个线程正在写入", "请稍后重试"),
    "storage_unavailable.no_ids": ("没有连续的记录编号可用", "同时写入的主机过多；请重试"),
    "storage_unavailable.connection_lost": ("与 PostgreSQL 的连接已断开", "请稍后重试"),
    "storage_unavailable.commit_unconfirmed": ("提交没有得到确认", "请重新连接，再检查最新的记录是否存在"),
    "storage_unavailable.row_locked": ("另一个主机锁定了一行数据", "请重试"),
    "storage_unavailable.postgres_unusable": ("无法使用 PostgreSQL：{problem}", "请检查服务器是否在运行"),
    "storage_unavailable.database_taken": (
        "本主机断开连接期间，另一个主机或命令写入了数据库",
        "主机将停止；等没有其他主机使用该数据库时再启动",
    ),
    "storage_unavailable.database_in_use": (
        "另一个主机或命令正在写入此数据库：来自 {address} 的会话 {session}",
        "请先停止它，或使用其他数据库",
    ),
    "storage_unavailable.file_not_opened": ("无法打开 {file}：{problem}", "请让当前用户可以写入数据目录"),
    "storage_unavailable.no_write_ahead_log": (
        "{file} 在这里不能使用预写日志（{mode}）",
        "请把数据目录放在本地磁盘上",
    ),
    "storage_unavailable.file_locked": ("{file} 被另一个写入者锁定", "请重试；检查是否有其他主机使用此文件"),
    "storage_unavailable.file_unusable": (
        "无法使用 {file}：{problem}",
        "请检查磁盘和数据目录；`bollard doctor` 会验证最新的记录",
    ),
    "storage_full.no_space": ("磁盘已满", "请清理磁盘空间；之后会自动恢复写入"),
    "storage_full.postgres_full": ("PostgreSQL 没有剩余空间", "请清理磁盘空间；之后会自动恢复写入"),
    "invalid_argument.value_too_large": ("PostgreSQL 无法保存这么大的值：{problem}", "请缩短其中的名称和 id"),
    "invalid_argument.offset_negative": ("offset 的值是 {offset}", "请从 0 开始计数"),
    "invalid_argument.content_too_large": ("内容过大", "最多发送 {limit} 字节"),
    "invalid_argument.range_invalid": (
        "从 {offset} 起的 {length} 字节不是有效范围",
        "从 0 或之后开始，至少读取一个字节",
    ),
    "conflict.row_exists": ("这一行已存在：{problem}", "请先读取，再重新决定"),
    "conflict.bytes_missing": ("缺少第 {expected} 到 {offset} 字节", "请从 {expected} 继续上传"),
    "conflict.bytes_differ": ("上传内容在位置 {offset} 与之前的不同", "请重新开始上传"),
    "conflict.digest_differs": ("内容的摘要不是 {expected}", "请重新开始上传"),
    "not_found.no_such_upload": ("没有这个上传", "它可能已过期"),
    "not_found.no_such_blob": ("没有这个内容", "它可能已过期"),
    "store_mismatch.row_forged": (
        "工作区 {workspace} 的 {kind} {id} 不是由本主机写入的",
        "如果 keys/kept.key 被替换，请恢复它；否则用 `bollard log rebuild --drop-unverified` 删除这些行，"
        "再重新设置密码或机密",
    ),
    "schema_too_new.database_too_new": (
        "数据库的版本是 {stored}，此程序最高支持 {known}",
        "请启动较新的程序，或恢复由此版本制作的备份",
    ),
    # --- 备份与归档 ---
    "schema_too_new.backup_too_new": ("备份的版本是 {stored}，此程序最高支持 {known}", "请用 {version} 版恢复它"),
    "schema_too_new.export_too_new": ("导出文件的版本是 {stored}，此程序最高支持 {known}", "请用 {version} 版导入它"),
    "bad_archive.row_unreadable": ("无法读取 {table} 的一行：{problem}", "请使用归档的另一份副本"),
    "bad_archive.content_missing": (
        "归档中缺少内容 {content}（{named_by}）",
        "请使用归档的另一份副本，或用 --incomplete 跳过缺少的内容",
    ),
    "bad_archive.record_unreadable": ("归档中的记录无法读取：{problem}", "没有写入任何数据；不要信任此归档"),
    "bad_archive.chain_broken": (
        "链 {chain} 在位置 {position} 断开：{problem}",
        "没有写入任何数据；请使用归档的另一份副本",
    ),
    "bad_archive.unsigned": ("归档没有签名：任何人都可能写出它", "如果你知道它的来源，请加上 --unsigned 恢复"),
    "bad_archive.unknown_signer": (
        "归档由未知的密钥签名：{fingerprint}",
        "请与备份时打印的指纹比对，再加上 --trust {fingerprint}",
    ),
    "bad_archive.public_key_invalid": ("归档中有无效的公钥", "请使用归档的另一份副本"),
    "bad_archive.unexpected_file": ("归档中有意外的文件：{file}", "不要信任此归档"),
    "bad_archive.document_unreadable": ("无法读取 {file}：{problem}", "请重新导出工作区"),
    "bad_archive.document_foreign": ("{file} 属于另一个工作区", "不要信任此归档"),
    "bad_archive.not_one_workspace": ("归档中不是恰好一个工作区", "请重新导出工作区"),
    "bad_archive.agent_unreadable": ("无法读取归档中的智能体 {agent}：{problem}", "请重新导出工作区"),
    "bad_archive.row_foreign": ("{table} 中有一行属于另一个工作区", "不要信任此归档"),
    "bad_archive.record_id_impossible": ("有一条记录的编号 {id} 不可能存在", "不要信任此归档"),
    "bad_archive.format_unknown": ("{file} 的格式是 {format}，此版本无法读取", "请用 {version} 版读取它"),
    "bad_archive.wrong_kind": (
        "{file} 是 {kind} 的归档",
        "备份用 `bollard restore` 恢复，工作区的归档用 `bollard import` 导入",
    ),
    "bad_archive.archive_unreadable": ("无法读取 {path}：{problem}", "请检查文件和它所在的磁盘"),
    "bad_archive.archive_damaged": ("无法使用 {path}：{problem}", "没有写入任何数据；请使用归档的另一份副本"),
    "not_found.no_archive": ("没有文件 {path}", "请给出存在的归档文件"),
    "not_found.no_database": ("{path} 中没有数据库", "请用 --data 指定主机的数据目录"),
    "not_found.database_empty": ("数据库是空的", "请先在其上启动主机"),
    "not_found.no_workspace_to_export": ("没有工作区 {workspace}", "`bollard workspaces` 会列出它们"),
    "conflict.archive_exists": ("{file} 已存在，不会覆盖", "请换一个名称"),
    "conflict.directory_not_empty": ("{path} 不是空的", "请恢复到新的或空的目录"),
    "conflict.database_not_empty": ("数据库不是空的", "请给出没有表的数据库；可用 createdb 新建"),
    "conflict.database_exists": ("{path} 已存在", "请恢复到空的目录"),
    "conflict.rows_collide": ("有两行的键相同：{problem}", "归档已损坏；请使用另一份副本"),
    "conflict.workspace_not_empty": ("这里的工作区 {workspace} 不是空的", "请导入到没有同名工作区的主机；数据不会合并"),
    "conflict.run_exists": ("运行 {run_id} 已存在", "请导入到另一台主机；数据不会合并"),
    "storage_full.no_space_for_archive": ("没有足够的空间写入 {file}", "请清理磁盘空间，或写到另一块磁盘"),
    "storage_full.postgres_full_restore": ("PostgreSQL 没有剩余空间", "请清理磁盘空间，再重新开始"),
    "storage_full.disk_full_restore": ("磁盘已满", "请清理磁盘空间，再重新开始"),
    "storage_unavailable.archive_not_written": ("无法写入 {file}：{problem}", "请换一个目录"),
    "storage_unavailable.directory_unusable": ("无法使用 {path}：{problem}", "请换一个目录"),
    "storage_unavailable.key_file_unreadable": ("无法读取 {file}：{problem}", "请以数据目录的所有者身份运行"),
    "storage_unavailable.not_a_key_file": ("{file} 不是密钥文件", "请把它移出 keys 目录"),
    "storage_unavailable.too_many_files": (
        "数据目录中的文件超过 {limit} 个",
        "请查明是什么产生了它们，并删除不需要的文件",
    ),
    "storage_unavailable.documents_unreadable": ("无法读取 {file}：{problem}", "请检查它所在的磁盘"),
    "storage_unavailable.record_unreadable": (
        "无法读取 {what}：{problem}",
        "请运行 `bollard audit verify`，检查日志是否被改动",
    ),
    "storage_unavailable.witness_unreadable": ("无法读取见证 {witness}：{problem}", "请用 --witness 指定它"),
    "storage_unavailable.content_missing": (
        "数据目录中缺少内容 {content}（{named_by}）",
        "请从更早的备份恢复该文件，或用 --incomplete 跳过它",
    ),
    "storage_unavailable.table_file_unusable": ("无法使用 {file}：{problem}", "请检查磁盘和该文件"),
    "storage_unavailable.import_not_written": ("无法写入 {path}：{problem}", "请检查磁盘，再重新导入"),
    "invalid_argument.no_log": ("数据库中没有日志", "请给出主机的数据目录或数据库"),
    # --- 审计 ---
    "audit_unavailable.audit_timeout": (
        "审计记录没有在 {seconds} 秒内写入，因此没有执行该操作",
        "请检查主机的磁盘或数据库，然后重试",
    ),
    "audit_unavailable.witness_damaged": ("无法读取见证中的链头：{problem}", "请检查设置 `witness` 及其文件或服务器"),
    "audit_unavailable.witness_empty": (
        "见证中没有本主机的链头，但日志中有记录",
        "请检查设置 `witness`；如果见证是新的，请先不带 witness_required 启动一次",
    ),
    "audit_unavailable.witness_unreadable": (
        "无法读取必需的见证 {witness}：{problem}",
        "请恢复见证，或不带 witness_required 启动",
    ),
    "log_broken.witnessed_record_missing": (
        "见证中有链 {chain} 的第 {position} 条记录，但日志中缺少它，或哈希不同",
        "请保留一份副本，运行 `bollard audit verify`，再恢复备份；或把 broken_log 设为 {name} 以在其后继续",
    ),
    "invalid_argument.proof_too_large": ("证明会超过 {limit} 条记录", "请改用 `bollard backup`，它包含整条链"),
    # --- 机密、文件、遥测 ---
    "conflict.fingerprint_key_unreadable": ("无法读取工作区的指纹密钥", "请从带密钥的备份恢复 keys/secrets.key"),
    "conflict.too_many_workspace_files": ("工作区已有 {limit} 个文件", "请用 `bollard files remove` 删除不需要的文件"),
    "not_found.no_such_file": ("没有这个文件", "`bollard files list` 会列出它们"),
    "settings.otel_certificates_unusable": ("无法使用追踪收集器的证书：{problem}", "请检查 {names}"),
    # --- 出站请求 ---
    "settings.egress_allow_invalid": (
        "egress_allow 无效：{problem}",
        "请使用 127.0.0.1:9000、chat.internal 或 10.1.0.0/16 这样的条目",
    ),
    "egress_denied.not_public": (
        "无法连接 {host}：没有可用的公网地址",
        "请检查域名；内网地址可由运维通过设置 egress_allow 放行",
    ),
    "egress_denied.host_invalid": ("主机名无效：{problem}", "请使用主机名，或常见写法的 IP 地址"),
    "egress_denied.address_denied": ("不允许访问 {host}：{problem}", "可由运维通过设置 egress_allow 放行"),
    "egress_denied.too_many_redirects": ("{origin} 的重定向超过 {limit} 次", "请直接请求最终地址"),
    "egress_denied.method_denied": ("不允许方法 {method}", "可用的方法：{methods}"),
    "egress_denied.too_many_headers": ("请求头超过 {limit} 个", "请减少请求头"),
    "egress_denied.body_denied": ("{method} 请求没有正文", "请使用 POST，或不发送正文"),
    "egress_denied.url_invalid": ("URL 无效：{problem}", "请使用 https://example.org/page 这样的 URL"),
    "egress_denied.header_denied": ("不允许请求头 {header}", "请去掉它，或使用以 x- 开头的请求头"),
    "egress_denied.header_value_invalid": ("请求头 {header} 的值无效", "最多 {limit} 个字符，且只能有一行"),
    "egress_denied.redirect_to_http": ("{origin} 重定向到明文 http", "请直接请求那个地址"),
    "egress_denied.redirect_to_other_origin": ("{origin} 把 {method} 重定向到 {target}", "请直接请求那个地址"),
    "outcome_unknown.request_outcome_unknown": ("{origin}：{problem}", "请到对方查看请求是否生效"),
    "tool_failed.request_failed": ("{origin}：{problem}", "请稍后重试"),
}
