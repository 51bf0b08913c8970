"""Chinese texts about state, conversations and artifacts."""

from typing import Final

STATE: Final = {
    "state": "删除状态值。",
    "state.purge": "删除最后由某个运行、智能体、参与者或来源写入的状态值。\n\n必须满足全部条件。已被其他写入者覆盖的值"
    "会保留。",
    "state.run": "只包括此运行或它调用的运行写入的值。",
    "state.actor": "只包括为此参与者执行的运行写入的值，例如 user:ann。",
    "state.agent": "只包括此智能体或它调用的智能体写入的值。",
    "state.source": "只包括由此来源的事件启动的运行写入的值。",
    "state.dry_run": "仅预演，不会执行：显示将删除的值。",
    "state.more": "……另有 {more} 个",
    "state.found": "将删除的值：{matched}",
    "state.purged": "已删除的值：{deleted}",
    "state.kept": "期间已变化而未删除的值：{kept}",
    "state.unknown": "写入者未知而未删除的值：{unknown}",
    "error.purge": "没有指定条件",
    "hint.purge": "请指定 --run、--actor、--agent 或 --source",
}

READING: Final = {
    "conversations": "列出会话并查看消息。",
    "conversations.list": "列出会话和话题，最近有消息的在前。",
    "conversations.show": "查看会话或话题的最新消息。",
    "conversations.id": "会话 ID。",
    "conversations.thread": "话题 ID（默认：不属于任何话题的消息）。",
    "conversations.bot": "会话的机器人（如果有）。",
    "conversations.limit": "数量，1 到 100。",
    "conversations.none": "还没有会话",
    "conversations.more": "……还有更早的消息；--limit 最多显示 100 条，--json 带有游标",
    "conversations.column.conversation": "会话",
    "conversations.column.thread": "话题",
    "conversations.column.bot": "机器人",
    "conversations.column.last": "最近消息",
    "artifacts": "查看、下载和移除制品。",
    "artifacts.show": "查看一个制品。",
    "artifacts.get": "把制品下载到文件。\n\n会校验摘要；不一致的文件会丢弃。",
    "artifacts.id": "制品 ID，见于记录和消息。",
    "artifacts.file": "要写入的文件；- 表示标准输出。",
    "artifacts.remove": "在过期前删除制品。\n\n引用它的地方会失效。",
    "artifacts.removed": "已移除制品 {artifact}",
    "artifacts.kept": "已写入 {file}（{size} 字节）",
    "error.content": "{artifact} 的内容与摘要不一致",
    "hint.content": "请重新下载；若仍失败，主机的磁盘可能已损坏",
}
