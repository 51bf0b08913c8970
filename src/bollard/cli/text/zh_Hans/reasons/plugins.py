"""Errors of plugins, runtimes, MCP servers, skills: the sentence and the hint, by code and reason."""

from typing import Final

_REPACK: Final = "请用普通的文件名重新打包；`bollard plugin install 文件夹` 会替你打包"
_FREE_SPACE: Final = "请清理磁盘空间"
_SMALLER: Final = "请去掉大文件"
_LEAVE_OUT: Final = "请去掉插件不需要的文件"
_REINSTALL: Final = "请移除插件后重新安装"
_CHECK: Final = "`bollard plugin check` 会列出插件的所有问题"
_LOGS: Final = "请查看 `bollard plugin logs`"

_ARCHIVES: Final[dict[str, tuple[str, str]]] = {
    "invalid_argument.archive_name_length": ("压缩包被拒绝：名称 {entry} 为空或超过 {limit} 字节", _REPACK),
    "invalid_argument.archive_absolute_path": ("压缩包被拒绝：{entry} 是绝对路径", _REPACK),
    "invalid_argument.archive_not_nfc": ("压缩包被拒绝：名称 {entry} 不是 Unicode NFC 形式", _REPACK),
    "invalid_argument.archive_too_deep": ("压缩包被拒绝：{entry} 超过 {limit} 层文件夹", _REPACK),
    "invalid_argument.archive_dot_component": ("压缩包被拒绝：{entry} 的路径中有空段、“.”或“..”", _REPACK),
    "invalid_argument.archive_component_length": ("压缩包被拒绝：{entry} 的路径中有一段超过 {limit} 字节", _REPACK),
    "invalid_argument.archive_trailing_dot": ("压缩包被拒绝：{entry} 的路径中有一段以点或空格结尾", _REPACK),
    "invalid_argument.archive_device_name": ("压缩包被拒绝：{entry} 在某些系统上是设备名", _REPACK),
    "invalid_argument.archive_character": ("压缩包被拒绝：{entry} 含有字符 {character}", _REPACK),
    "invalid_argument.archive_same_name": ("压缩包被拒绝：有两个条目名为 {entry}（不区分大小写）", _REPACK),
    "invalid_argument.archive_same_folder": ("压缩包被拒绝：有两个名为 {entry} 的文件夹，仅大小写不同", _REPACK),
    "invalid_argument.archive_file_and_folder": ("压缩包被拒绝：{entry} 既是文件又是文件夹", _REPACK),
    "invalid_argument.archive_total_size": ("压缩包被拒绝：文件总大小超过 {limit} 字节", _SMALLER),
    "invalid_argument.archive_not_zip": ("压缩包被拒绝：不是 zip 文件", "请发送 .zip 或 .whl 文件"),
    "invalid_argument.archive_split": ("压缩包被拒绝：这是分卷压缩包的一部分", _REPACK),
    "invalid_argument.archive_entries": ("压缩包被拒绝：有 {count} 个条目", "一个插件最多有 {limit} 个文件和文件夹"),
    "invalid_argument.archive_directory_size": ("压缩包被拒绝：中央目录超过 {limit} 字节", _REPACK),
    "invalid_argument.archive_directory_offset": ("压缩包被拒绝：中央目录不在声明的位置", _REPACK),
    "invalid_argument.archive_directory_count": ("压缩包被拒绝：中央目录的条目数与声明的不符", _REPACK),
    "invalid_argument.archive_encrypted": ("压缩包被拒绝：{entry} 已加密", _REPACK),
    "invalid_argument.archive_compression": ("压缩包被拒绝：{entry} 使用了不支持的压缩方法 {method}", _REPACK),
    "invalid_argument.archive_entry_size": ("压缩包被拒绝：{entry} 超过 {limit} 字节", _SMALLER),
    "invalid_argument.archive_folder_content": ("压缩包被拒绝：文件夹 {entry} 带有内容", _REPACK),
    "invalid_argument.archive_outside": ("压缩包被拒绝：{entry} 的数据超出压缩包的数据区", _REPACK),
    "invalid_argument.archive_not_utf8": ("压缩包被拒绝：名称 {entry} 不是 UTF-8", _REPACK),
    "invalid_argument.archive_link": ("压缩包被拒绝：{entry} 是链接", "请用文件本身代替链接"),
    "invalid_argument.archive_kind": ("压缩包被拒绝：{entry} 既不是文件也不是文件夹", _REPACK),
    "invalid_argument.archive_header_offset": ("压缩包被拒绝：{entry} 不在声明的位置", _REPACK),
    "invalid_argument.archive_header_mismatch": ("压缩包被拒绝：{entry} 与它的本地文件头不一致", _REPACK),
    "invalid_argument.archive_overlap": ("压缩包被拒绝：{entry} 与 {other} 重叠", _REPACK),
    "invalid_argument.archive_empty": ("压缩包被拒绝：里面没有文件", "请打包插件的文件夹：manifest.yaml 和它的模块"),
    "invalid_argument.archive_declared_size": ("压缩包被拒绝：{entry} 超过声明的大小", _REPACK),
    "invalid_argument.archive_ratio": ("压缩包被拒绝：{entry} 解压后超过压缩大小的 {limit} 倍", _REPACK),
    "invalid_argument.archive_damaged": ("压缩包被拒绝：{entry} 已损坏：{problem}", _REPACK),
    "invalid_argument.archive_no_plugin": (
        "压缩包被拒绝：顶层没有插件",
        "插件是顶层有 manifest.yaml 的文件夹，或一个 Python 文件",
    ),
    "invalid_argument.archive_entry_points_size": ("压缩包被拒绝：entry_points.txt 超过 {limit} 字节", _REPACK),
    "invalid_argument.archive_entry_points": ("压缩包被拒绝：无法读取 entry_points.txt", _REPACK),
    "invalid_argument.archive_entry_point_manifest": (
        "压缩包被拒绝：入口点指向 {module}，那里没有 manifest.yaml",
        _REPACK,
    ),
    "storage_full.archive_unpack": ("无法解压 {entry}：{problem}", _FREE_SPACE),
    "payload_too_large.plugin_archive": ("压缩包超过 {limit} 字节", _SMALLER),
    "storage_full.plugin_archive": ("无法保存压缩包：{problem}", _FREE_SPACE),
}
_PLUGINS: Final[dict[str, tuple[str, str]]] = {
    "invalid_argument.package_entry_points": (
        "该软件包在 bollard.plugins 组中有 {count} 个入口点",
        "请只声明一个，其值为含有 manifest.yaml 的模块",
    ),
    "invalid_argument.package_entry_point": ("入口点 {module} 不是模块", "请写模块名"),
    "invalid_argument.package_manifest": ("模块 {module} 没有 manifest.yaml", "请把 manifest.yaml 与代码一起打包"),
    "not_found.package": ("主机环境中没有这个软件包", "请用 pip 或 uv 在那里安装，或上传它的 wheel"),
    "not_found.plugin_code": ("插件的代码不见了", "请重新安装插件"),
    "invalid_argument.plugin_code_unreadable": ("无法读取插件的代码：{problem}", _REINSTALL),
    "invalid_argument.plugin_code_changed": ("插件的代码在安装后被改动", _REINSTALL),
    "storage_full.plugin_store": ("无法保存插件：{problem}", _FREE_SPACE),
    "invalid_argument.plugin_unreadable": ("无法读取插件：{problem}", "请重新打包"),
    "invalid_argument.plugin_files": ("插件的文件超过 {limit} 个", _LEAVE_OUT),
    "invalid_argument.plugin_size": ("插件的文件总大小超过 {limit} 字节", _LEAVE_OUT),
    "invalid_argument.plugin_file_unreadable": ("无法读取插件的文件 {file}：{problem}", "不跟随链接"),
    "invalid_argument.plugin_file_kind": ("{file} 不是文件", "请把它从插件中移除"),
    "invalid_argument.plugin_invalid": ("插件无效：{file}：{problem}", _CHECK),
    "invalid_argument.plugin_empty": ("插件无效：{file}：没有声明可用的运行器或工具", _CHECK),
    "invalid_argument.plugin_not_python": ("插件无效：{file}：不是大小允许的 Python 文件", _CHECK),
    "invalid_argument.plugin_literal": (
        "插件无效：{file}：{problem}",
        "请写成字面量，或用 `bollard plugin new` 建立带清单的文件夹",
    ),
    "consent_needed.plugin_access": (
        "插件 {plugin} {version} 请求的权限需要你同意",
        "请查看 `details.asks` 和 `details.change`，再把 `details.consent` 作为 `consent` 发送",
    ),
    "consent_needed.plugin_more_access": (
        "插件 {plugin} {version} 请求的权限比之前更多",
        "请查看 `details.asks` 和 `details.change`，再把 `details.consent` 作为 `consent` 发送",
    ),
    "conflict.plugin_has_agents": ("插件 {plugin} 正被 {agents} 使用", "请先删除这些智能体，或给它们换一个运行器"),
    "conflict.plugin_has_bindings": (
        "绑定 {bindings} 使用了插件 {plugin} 的智能体",
        "请先删除这些绑定，或把它们绑定到别的智能体",
    ),
    "rate_limited.plugin_log_readers": ("已有 {limit} 个读者在跟踪这个日志", "请关闭其中一个"),
    "plugin_unusable.worker_start": ("插件 {plugin} 无法使用：{problem}", _CHECK),
    "conflict.plugin_is_remote": ("插件 {plugin} 来自远程运行时", "请停用或撤销该运行时：`bollard runtimes`"),
    "conflict.plugin_is_shared": (
        "插件 {plugin} 来自主机或其设置，每个工作区都有",
        "请修改设置 `plugins` 和 `builtin_plugins`",
    ),
    "not_found.plugin": ("没有这个插件", "`bollard plugin list` 会列出它们"),
    "invalid_argument.plugin_other": ("压缩包中是插件 {found}，不是 {plugin}", "请把它作为新插件安装"),
    "not_found.plugin_version": ("没有这个早期版本", "`bollard plugin show` 会列出各版本"),
    "conflict.plugin_installed": ("插件 {plugin} 已经安装", "请改用更新：`bollard plugin update` 或 PUT"),
    "conflict.plugin_limit": ("工作区已有 {limit} 个插件，达到上限", "请移除一个不需要的插件"),
    "conflict.plugin_name_shared": ("插件 {plugin} 来自主机或其设置", "请换一个作者或名称"),
    "conflict.plugin_lookalike": (
        "插件 {plugin} 的名称与工作区中的 {other} 太相似",
        "请先移除那个插件，或换一个名称",
    ),
    "invalid_argument.plugin_workers": ("workers 是 {workers}", "请用 1 到 {limit} 之间的数"),
    "tool_failed.plugin_tool_arguments": ("{tool} 的参数对工作进程来说过大：{problem}", "请传递制品，而不是它的内容"),
    "tool_failed.plugin_tool_unavailable": ("无法调用 {tool}：{problem}", "请查看 `bollard capabilities explain`"),
    "tool_failed.plugin_tool_changed": (
        "{tool} 在本次运行开始后已改变，因为插件已更新",
        "请开始新的运行，它会使用当前版本的工具",
    ),
    "tool_failed.plugin_tool_worker": ("无法调用 {tool}：{problem}", _LOGS),
    "tool_failed.plugin_tool_rejected": ("工作进程拒绝了对 {tool} 的调用：{problem}", _LOGS),
    "outcome_unknown.plugin_tool": ("{tool} 已开始但没有应答：{problem}", "再次调用前请检查它改动了什么；" + _LOGS),
    "rate_limited.plugin_uploads": ("正在上传的插件过多", "请稍后再试"),
    "not_found.plugin_development": ("插件 {plugin} 不在开发中", "请用 `bollard plugin dev` 开始"),
}
_MCP: Final[dict[str, tuple[str, str]]] = {
    "tool_failed.mcp_not_connected": ("MCP 服务器未连接", "请查看 `bollard mcp show NAME`"),
    "tool_failed.mcp_server_not_connected": (
        "MCP 服务器 {server} 未连接：{problem}",
        "请查看 `bollard mcp show {server}`",
    ),
    "tool_failed.mcp_call_not_sent": ("调用没有发出：{problem}", "请查看 `bollard mcp show NAME`"),
    "tool_failed.mcp_calls": ("MCP 服务器 {server} 已有 {limit} 个调用在进行，达到上限", "请稍后再试"),
    "tool_failed.mcp_server_removed": ("MCP 服务器 {server} 已被移除", "`bollard mcp list` 会列出它们"),
    "tool_failed.mcp_tool_changed": (
        "{tool} 已不是授权时的工具：{problem}",
        "请用 `bollard mcp show {server}` 查看变化",
    ),
    "outcome_unknown.mcp_call": ("调用已发出但没有应答：{problem}", "再次调用前请检查服务器做了什么"),
    "settings.mcp_sdk": ("主机上没有安装 MCP 的 SDK", "pip install 'bollard[mcp]'，然后重新启动主机"),
    "not_found.mcp_server": ("没有这个 MCP 服务器", "`bollard mcp list` 会列出它们"),
    "conflict.mcp_disabled": ("MCP 服务器 {server} 已停用", "请以 `enabled: true` 保存它"),
    "conflict.mcp_refresh": ("MCP 服务器 {server} 在 {seconds} 秒内没有应答", "请查看 `bollard mcp show {server}`"),
    "conflict.mcp_tool_unusable": ("工具 {tool} 无法使用：{problem}", "请用 `bollard mcp show {server}` 列出工具"),
    "conflict.mcp_definition_changed": ("{tool} 的定义在你查看后已改变", "请重新查看定义，再决定是否同意"),
    "conflict.mcp_bridge_start": ("无法启动 MCP 桥接进程：{problem}", "请检查系统的限额"),
    "conflict.mcp_login_size": ("登录得到的令牌超过 {limit} 个字符", "请减少请求的 scope"),
    "conflict.mcp_not_logged_in": ("还没有人登录 MCP 服务器 {server}", "请用 `bollard mcp login {server}` 登录"),
    "conflict.mcp_no_login": ("MCP 服务器 {server} 没有登录", '请以 url 和 `auth: "oauth"` 保存它'),
    "conflict.mcp_no_pending_login": (
        "你没有正在进行的 MCP 服务器 {server} 登录",
        "请用 `bollard mcp login {server}` 开始，并在 {minutes:g} 分钟内完成",
    ),
    "conflict.mcp_login_failed": ("登录 MCP 服务器 {server} 失败：{problem}", "请用 `bollard mcp login {server}` 重试"),
    "invalid_argument.mcp_login_state": ("state 与正在进行的登录不符", "请重新登录"),
    "invalid_argument.mcp_redirect": (
        "redirect_uri 不是带端口的本机地址",
        "请使用 http://127.0.0.1:53682/callback 这样的地址",
    ),
    "invalid_argument.mcp_command_or_url": ("{field}：command 和 url 必须且只能有一个", "请只设置其中一个"),
    "invalid_argument.mcp_command_headers": ("{field}：command 没有请求头", "请使用 env"),
    "invalid_argument.mcp_url_arguments": ("{field}：只用于 command，不用于 url", "请使用 headers"),
    "invalid_argument.mcp_own_header": ("{field}：由主机自己填写", "请去掉它"),
    "invalid_argument.mcp_plain_secret": (
        "{field}：看起来是明文的机密",
        "先用 `bollard secrets set NAME`，再把 {name} 的值写成 secret:NAME",
    ),
    "invalid_argument.mcp_url": ("{field}：{problem}", "请使用可访问的 https 地址"),
    "invalid_argument.mcp_oauth_only": ("{field}：只用于登录", '请加上 `auth: "oauth"`'),
    "invalid_argument.mcp_command_login": ("{field}：command 没有登录", "请在 env 中使用 secret:NAME"),
    "invalid_argument.mcp_login_header": ("{field}：由登录填写", "请去掉这个请求头，或去掉 `auth`"),
    "invalid_argument.mcp_client_secret": ("{field}：需要 client_id", "请两者都设置，或都不设置"),
}
_RUNTIMES: Final[dict[str, tuple[str, str]]] = {
    "rate_limited.runtime_codes": ("工作区已有 {limit} 个未使用的登记码", "请等待其中一些过期"),
    "rate_limited.runtime_connects": ("一个运行时每分钟最多连接 {limit} 次", "请按 Retry-After 等待"),
    "unauthenticated.runtime_key": (
        "这个运行时的密钥未在此登记，或已停用",
        "请在主机上用 `bollard runtimes enroll NAME` 取得登记码后登记",
    ),
    "conflict.runtime_connected": ("运行时 {runtime} 已经连接", "请停止另一个进程，或用单独的密钥登记这一个"),
    "conflict.runtime_not_connected": (
        "运行时 {runtime} 未连接，或没有报告代码的摘要",
        "请用 `bollard runtime … --connect` 启动它，再同意它的插件",
    ),
    "conflict.runtime_other_plugin": (
        "运行时 {runtime} 只为 {enrolled} 登记，而它的插件是 {plugin}",
        "请撤销它，再为这个插件登记",
    ),
    "conflict.runtime_plugin_name": ("工作区已有非远程的插件 {plugin}", "请先移除那个插件，或换一个名称"),
    "worker_unavailable.runtime_not_connected": (
        "插件 {plugin} 没有已连接的运行时",
        "请查看 `bollard runtimes`；在它的机器上须运行 `bollard runtime … --connect`",
    ),
}
_FRONT_MATTER: Final = "技能以 `---`、`name: …`、`description: …`、`---` 开头；见 docs/guides/skills.md"
_RENAME: Final = "请重命名该文件"
_SKILLS: Final[dict[str, tuple[str, str]]] = {
    "invalid_argument.skill_too_many_files": ("技能的文件超过 {limit} 个", ""),
    "invalid_argument.skill_stored": ("{field}：{problem}", ""),
    "storage_unavailable.skill_file_unreadable": (
        "无法读取技能 {skill} 的文件 {file}：{problem}",
        "请重启插件，或重新安装",
    ),
    "storage_unavailable.skill_file_changed": (
        "技能 {skill} 的文件 {file} 在插件安装后被改动",
        "请重启插件，或重新安装",
    ),
    "invalid_argument.skill_text_size": ("SKILL.md 无效：超过 {limit} 字节", "请把不常用的内容移到其他文件"),
    "invalid_argument.skill_text_no_front_matter": (
        "SKILL.md 无效：开头不是两行 --- 之间的 YAML",
        _FRONT_MATTER,
    ),
    "invalid_argument.skill_text_front_matter": ("SKILL.md 无效：头部 {at}：{problem}", _FRONT_MATTER),
    "invalid_argument.skill_text_not_utf8": ("SKILL.md 无效：不是 UTF-8", "请保存为 UTF-8"),
    "invalid_argument.skill_text_not_mapping": ("SKILL.md 无效：头部不是键值结构", _FRONT_MATTER),
    "invalid_argument.skill_text_name": (
        "SKILL.md 无效：名称 {name} 不合规",
        "请用小写字母、数字和单个连字符，例如 report-writer",
    ),
    "invalid_argument.skill_text_folder_name": (
        "SKILL.md 无效：名称是 {name}，而文件夹是 {folder}",
        "请让两者同名",
    ),
    "invalid_argument.skill_text_missing_field": ("SKILL.md 无效：没有 {key}", _FRONT_MATTER),
    "invalid_argument.skill_text_field_length": ("SKILL.md 无效：{key} 有 {count} 个字符", "最多 {limit} 个字符"),
    "invalid_argument.skill_files_count": ("技能被拒绝：有 {count} 个文件", "一个技能最多有 {limit} 个文件"),
    "invalid_argument.skill_files_size": ("技能被拒绝：文件共 {size} 字节", "一个技能最多 {limit} 字节"),
    "invalid_argument.skill_files_same_name": (
        "技能被拒绝：{file} 与 {other} 在某些系统上是同一个名称",
        "请重命名其中一个",
    ),
    "invalid_argument.skill_files_no_text": ("技能被拒绝：没有 SKILL.md", "请把 SKILL.md 放在文件夹的顶层"),
    "invalid_argument.skill_files_name_length": (
        "技能被拒绝：文件名 {file} 为空，或超过 {limit} 个字符或 {depth} 层文件夹",
        _RENAME,
    ),
    "invalid_argument.skill_files_name_component": (
        "技能被拒绝：文件名 {file} 中有一段为空、为“.”或“..”，或以点或空格结尾",
        _RENAME,
    ),
    "invalid_argument.skill_files_name_character": ("技能被拒绝：文件名 {file} 含有不允许的字符", _RENAME),
    "invalid_argument.skill_files_name_not_nfc": ("技能被拒绝：文件名 {file} 不是 Unicode NFC 形式", _RENAME),
    "not_found.skill_file": ("技能 {skill} 没有文件 {file}", "激活该技能会列出它的文件"),
    "not_found.run_skill": ("本次运行没有这个技能", "请使用运行资源中列出的技能名称"),
    "tool_failed.skill": ("无法使用技能：{problem}", ""),
    "tool_failed.skill_authoring": ("本次运行的运行器不能编写技能", "请在它的清单中加上能力 skill_authoring"),
    "tool_failed.skill_changed": ("技能 {skill} 在本次运行开始后已改变", "请开始新的运行"),
    "revoked.skill": ("管理员已撤销本次运行的技能 {skill}", "请开始新的运行"),
}
REASONS: Final[dict[str, tuple[str, str]]] = {**_ARCHIVES, **_PLUGINS, **_MCP, **_RUNTIMES, **_SKILLS}
