"""Errors of the HTTP server, authentication, identity and resources: the sentence and the hint, by code and reason."""

from typing import Final

_RETRY: Final = "请稍后重试"
_HTTP: Final = "请按 RFC 9112 发送 HTTP/1.1"
_OBJECT: Final = "请发送一个 JSON 对象"
_ONE: Final = "只发送其中一个"
_READ_AGAIN: Final = "请重新读取后再修改"
_CLOUDEVENTS: Final = "见 docs/reference/http.md#cloudevents"
_PASSWORD: Final = "请换一个密码"  # noqa: S105 -- a hint

REASONS: Final[dict[str, tuple[str, str]]] = {
    # --- 连接与请求头 ---
    "too_many_connections.address_limit": (
        "此地址已打开 {limit} 个连接",
        "请关闭一些连接，或提高设置 connections_per_address",
    ),
    "too_many_connections.host_limit": ("已打开 {limit} 个连接", _RETRY),
    "malformed_request.http_version": ("不支持 HTTP/{version}", _HTTP),
    "malformed_request.two_host_headers": ("请求有多个 Host 头", _HTTP),
    "malformed_request.no_host_header": ("请求没有 Host 头", _HTTP),
    "malformed_request.target": ("请求目标不是路径", _HTTP),
    "malformed_request.transfer_encoding": ("Transfer-Encoding 只支持 chunked", _HTTP),
    "malformed_request.syntax": ("请求不是有效的 HTTP：{problem}", _HTTP),
    "malformed_request.connect": ("不支持 CONNECT 方法", _HTTP),
    "malformed_request.early_frames": ("WebSocket 握手完成前收到了数据", "请等待 101 响应"),
    "malformed_request.host_header": ("Host 头中没有主机名", "请发送 URL 中的主机名"),
    "malformed_request.two_authorizations": ("请求有多个 Authorization 头", "只发送一个"),
    "expectation_failed.expect_header": ("Expect 只支持 100-continue", "不要发送其他 Expect 头"),
    "unsupported_media_type.content_encoding": ("不支持压缩的请求体", "请不带 Content-Encoding 发送"),
    "head_too_large.head": ("请求头超过 {max_bytes} 字节或 {max_headers} 个字段", "请缩短请求头和 URL"),
    "head_too_large.trailers": ("trailer 和分块扩展超过 {max_bytes} 字节", "请缩短或去掉它们"),
    "request_timeout.head": ("请求头发送过慢", "发送时停顿不要超过 {seconds} 秒"),
    "request_timeout.body": ("请求体发送过慢", "发送时停顿不要超过 {seconds} 秒"),
    "settings.tls_file_missing": ("{field}：没有文件 {path}", "请指定一个 PEM 文件"),
    "settings.tls_unusable": (
        "证书及其私钥无法使用：{problem}",
        "tls_cert 和 tls_key 必须是匹配的 PEM 文件，且私钥没有密码",
    ),
    "forbidden_host.host_name": (
        "{name} 不是这台主机的名称",
        "请在设置 allowed_hosts 中加入该名称，或在 origins 中加入其 URL",
    ),
    "forbidden_origin.origin": ("{origin} 的页面不能使用这台主机", "如需允许，请在设置 origins 中加入 {origin}"),
    "forbidden_origin.cross_site": ("请求来自其他网站的页面", "请使用设置 origins 中某个来源的页面"),
    "forbidden_origin.origin_missing": (
        "带会话 cookie 的请求必须有 Origin 头",
        "请发送 Origin 头，或改用 `Authorization: Bearer …`",
    ),
    # --- 频率与并发 ---
    "rate_limited.request_rate": ("一分钟内请求超过 {limit} 次", "请按 Retry-After 等待，或降低频率"),
    "rate_limited.open_requests": ("已有 {limit} 个请求在进行", "请先关闭一个流，再打开新的"),
    "rate_limited.tickets": ("未使用的票据过多", _RETRY),
    "rate_limited.large_events": ("同时接收的大事件过多", _RETRY),
    "rate_limited.idempotent_requests": ("进行中的带 Idempotency-Key 的请求过多", _RETRY),
    "rate_limited.logins": ("同时登录的人过多", _RETRY),
    "rate_limited.login_attempts": ("登录尝试次数过多", "请稍候再试"),
    "rate_limited.mcp_calls": ("已有 {limit} 个调用在进行", "请等待其中一个结束"),
    # --- 登录与权限 ---
    "unauthenticated.token_required": (
        "需要令牌",
        "请发送 `Authorization: Bearer …`，使用 API 密钥或首次启动时显示的管理员令牌",
    ),
    "unauthenticated.ticket": ("票据在此无效", "票据只能在几秒内用于一个路径一次；请用 POST /api/v1/tickets 重新获取"),
    "unauthenticated.login": ("工作区、用户或密码有误", "请检查这三项后重试"),
    "unauthenticated.socket_token": ("此连接的令牌已失效", "请用其他令牌重新连接"),
    "unauthenticated.run_token": (
        "令牌不属于进行中的运行",
        "请用 POST /api/v1/runs/{{run_id}}/mcp-token 获取；运行结束后即失效",
    ),
    "unauthorized.right": ("需要权限 {right}", "请向工作区管理员申请具有该权限的角色或密钥"),
    "unauthorized.socket_read_only": ("需要权限 {right}", "此调用者只能查看该运行"),
    "unauthorized.actor": ("此调用者只能以自己的名义发送消息", "请去掉 actor，或使用具有 {right} 权限的密钥"),
    "invalid_argument.ticket_and_token": ("请求同时带有票据和令牌", _ONE),
    "invalid_argument.token_in_url": (
        "URL 中不能有令牌：它会留在日志和历史记录里",
        "请用 `Authorization: Bearer …` 发送，或用 POST /api/v1/tickets 获取票据",
    ),
    "invalid_argument.not_a_user": ("此令牌不属于任何用户", "请以要修改密码的用户登录"),
    "invalid_argument.password_length": ("密码需要 {least} 到 {most} 个字符", "请使用几个单词，或使用密码管理器"),
    "invalid_argument.password_id": ("密码与用户 id 过于相似", _PASSWORD),
    "invalid_argument.password_trivial": ("密码只是重复同一个字符", _PASSWORD),
    # --- 路径、查询与请求体 ---
    "not_found.path": ("没有这个路径", "见 docs/reference/http.md"),
    "not_found.socket": ("此路径没有 WebSocket", "见 docs/reference/http.md"),
    "not_found.run_tool": ("此运行没有这个工具", "请重新列出它的工具"),
    "method_not_allowed.method": ("此路径不支持 {method}", "请使用 {methods}"),
    "upgrade_required.websocket": ("此路径是 WebSocket", "请用 ws:// 或 wss:// 连接，或读取该运行的 …/stream"),
    "payload_too_large.body": ("请求体超过 {max_bytes} 字节", "请减少内容"),
    "payload_too_large.event_body": ("请求体超过 {max_bytes} 字节", "请发送引用，或提高设置 event_bytes"),
    "payload_too_large.batch": ("一批最多 {limit} 个事件", "请分成几批发送"),
    "invalid_argument.not_json": ("请求体不是 JSON：{problem}", _OBJECT),
    "invalid_argument.not_an_object": ("请求体不是 JSON 对象", _OBJECT),
    "invalid_argument.field": ("{field}：{problem}", "见 docs/reference/http.md"),
    "invalid_argument.query": ("查询字符串格式有误", "请发送 UTF-8 编码的 name=value"),
    "invalid_argument.query_none": ("没有参数 {field}", "此操作没有参数"),
    "invalid_argument.query_similar": ("没有参数 {field}", "是不是 {similar}？"),
    "invalid_argument.query_unknown": ("没有参数 {field}", "可用参数：{names}"),
    "invalid_argument.query_repeated": ("参数 {field} 重复", "{field} 只发送一次"),
    "invalid_argument.query_least": ("{field} 过小", "请使用不小于 {least} 的数"),
    "invalid_argument.query_range": ("{field} 超出范围", "请使用 {least} 到 {most}"),
    "invalid_argument.query_flag": ("{field} 不是 true 或 false", "请使用 true 或 false"),
    "invalid_argument.query_choice": ("{field} 没有 {value}", "请用其中之一：{choices}"),
    "invalid_argument.query_length": ("{field} 需要 1 到 {max_characters} 个字符", "请去掉 {field}，或填写它的值"),
    "invalid_argument.query_number": ("{field} 不是整数", "请使用整数"),
    "invalid_argument.cursor": ("游标无效", "请不带游标重新开始"),
    "invalid_argument.frame_binary": ("帧不是文本", "请用文本帧发送 JSON"),
    "invalid_argument.frame_size": ("帧超过 {max_bytes} 字节", "请减少内容"),
    "invalid_argument.frame_json": ("帧不是 JSON：{problem}", _OBJECT),
    "invalid_argument.frame_object": ("帧不是 JSON 对象", _OBJECT),
    "invalid_argument.tool_argument": ("没有参数 {argument}", "请发送 text"),
    "invalid_argument.tool_text": ("缺少 text，或 text 过长", "请填写给智能体的消息"),
    "invalid_argument.tool_conversation": ("会话名称为空或过长", "请使用较短的名称，或去掉它"),
    "range_not_satisfiable.range": ("范围超出内容，内容共 {size} 字节", "请在内容范围内请求"),
    # --- 修订与重复请求 ---
    "precondition_failed.exists": ("资源已存在", _READ_AGAIN),
    "precondition_failed.missing": ("资源不存在", _READ_AGAIN),
    "precondition_failed.if_match": ("资源已不是 If-Match 中的修订", _READ_AGAIN),
    "invalid_argument.if_none_match": ("If-None-Match 不是 *", "请用 If-Match 发送读到的标签"),
    "invalid_argument.revision_differs": ("If-Match 与 revision 不一致", _ONE),
    "invalid_argument.id_differs": ("Idempotency-Key 与 id 不一致", _ONE),
    "invalid_argument.idempotency_key": (
        "Idempotency-Key 需要 1 到 {max_characters} 个可打印的 ASCII 字符",
        "请为每个新请求使用新的随机 id",
    ),
    "idempotency_mismatch.other_request": (
        "此 Idempotency-Key 已用于另一个请求",
        "新请求请使用新的键；重试时请原样发送",
    ),
    "conflict.in_flight": ("带有此 Idempotency-Key 的请求正在进行", "请等它结束后再重试"),
    "conflict.response_too_large": ("请求已执行，但响应过大，没有保存", "请读取它修改的资源"),
    "conflict.interrupted": ("请求被中断，结果未知", "请检查是否已生效；如果没有，请换一个 Idempotency-Key 重试"),
    "conflict.response_unreadable": ("请求已执行，但保存的响应无法读取", "请读取它修改的资源"),
    "storage_full.saved_responses": (
        "磁盘已满，无法保存用于重试的响应",
        "请清理数据目录所在的磁盘，或不带 Idempotency-Key 发送",
    ),
    "storage_stalled.no_response": (
        "{waits_for} 已有 {retry_after_s} 秒没有响应，此请求的结果尚不确定",
        "请用相同的 Idempotency-Key 或事件 id 重试，会得到第一次的结果",
    ),
    # --- 事件 ---
    "invalid_argument.attachments": ("一条消息最多 {limit} 个附件", "其余附件请用另一条消息发送"),
    "invalid_argument.attachment": ("此会话没有这个制品", "请附上同一会话和话题中运行或消息的制品"),
    "invalid_argument.channel_agent": ("agent：渠道的事件不能指定智能体", "请保存一个作用于该渠道的绑定"),
    "invalid_argument.data_object": ("data 应为对象", "见 docs/reference/http.md"),
    "invalid_argument.data_not_json": ("请求体不是 JSON：{problem}", "请改正，或发送它的 Content-Type"),
    "invalid_argument.not_an_array": ("请求体不是事件的 JSON 数组：{problem}", "请发送 JSON 数组"),
    "invalid_argument.reserved_source": (
        "此来源由主机保留",
        "请使用不是 {api}、也不以 {own}、{run} 或 {api}/ 开头的来源",
    ),
    "invalid_argument.reserved_type": ("此事件类型由主机保留", "请不要使用以下类型：{types}"),
    "invalid_argument.attributes_size": ("属性超过 {max_bytes} 字节", "请把它们放进 data"),
    "invalid_argument.cloudevent_attribute_name": ("{field}：属性名只能有小写字母和数字", _CLOUDEVENTS),
    "invalid_argument.cloudevent_data_twice": ("{field}：事件已有 data，只能有其中一个", _CLOUDEVENTS),
    "invalid_argument.cloudevent_ce_header": ("{field}：CloudEvents 没有这个头", _CLOUDEVENTS),
    "invalid_argument.cloudevent_attribute_missing": ("{field}：缺少此属性", _CLOUDEVENTS),
    "invalid_argument.cloudevent_attribute_text": ("{field}：应为非空字符串", _CLOUDEVENTS),
    "invalid_argument.cloudevent_attribute_type": ("{field}：应为字符串、整数或布尔值", _CLOUDEVENTS),
    "invalid_argument.cloudevent_base64": ("{field}：不是 base64", _CLOUDEVENTS),
    "invalid_argument.cloudevent_time": ("{field}：不是 RFC 3339 时间，例如 2026-01-31T12:00:00Z", _CLOUDEVENTS),
    "invalid_argument.cloudevent_time_before_epoch": ("{field}：早于 1970 年", _CLOUDEVENTS),
    "invalid_argument.cloudevent_header_encoding": ("{field}：不是百分号编码的 UTF-8", _CLOUDEVENTS),
    "unsupported_media_type.specversion": ("只支持 specversion 1.0 的 CloudEvents", "请发送 specversion 1.0"),
    "unsupported_media_type.unsigned_attributes": (
        "渠道不接受属性在请求头中的 CloudEvent：签名不包含请求头",
        "请以 {media} 发送",
    ),
    "unsupported_media_type.cloudevents_format": (
        "不支持 {media}",
        "请发送 application/cloudevents+json 或 application/cloudevents-batch+json",
    ),
    "unsupported_media_type.artifact_type": (
        "事件需要存为制品，但设置不允许这种类型的制品",
        "请发送较小的 JSON 数据，或在设置 artifact_mime_types 中加入该类型",
    ),
    # --- 主机 ---
    "runtime_error.internal": ("主机出错，这是一个缺陷", "请查看主机的日志并报告"),
}
