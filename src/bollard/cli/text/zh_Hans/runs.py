"""What the command line says in Chinese about state."""

from typing import Final

STATE: Final = {
    "state": "删除某人写入状态的内容。",
    "state.purge": "删除最后由某个运行、智能体、参与者或来源写入的状态值。\n\n"
    "给出的条件必须全部成立。已被他人覆盖的值会保留。",
    "state.run": "只限该运行或它调用的运行写入的内容。",
    "state.actor": "只限为该参与者进行的运行写入的内容，例如 user:ann。",
    "state.agent": "只限该智能体或它调用的智能体写入的内容。",
    "state.source": "只限由该来源的事件开始的运行写入的内容。",
    "state.dry_run": "不删除任何内容；显示将会删除什么。",
    "state.more": "……另有 {more} 个",
    "state.found": "将会删除的值：{matched}",
    "state.purged": "已删除的值：{deleted}",
    "state.kept": "期间有变化而保留的值：{kept}",
    "state.unknown": "写入者未知而保留的值：{unknown}",
    "error.purge": "没有说明是谁的状态",
    "hint.purge": "请给出 --run、--actor、--agent 或 --source",
}


# What the command line says in Chinese about what was said, and what came of it.


READING: Final = {
    "conversations": "列出会话，查看某个会话里说过的话。",
    "conversations.list": "列出会话及其话题，最近有消息的在最前。",
    "conversations.show": "显示一个会话或其中一个话题的最新消息。",
    "conversations.id": "会话的 ID。",
    "conversations.thread": "其中的一个话题；不给出时，显示不属于任何话题的消息。",
    "conversations.bot": "会话所属的机器人（如果有）。",
    "conversations.limit": "数量，1 到 100。",
    "conversations.none": "还没有任何会话消息",
    "conversations.more": "……之前还有更多；--limit 最多显示 100 条，--json 带有游标",
    "conversations.column.conversation": "会话",
    "conversations.column.thread": "话题",
    "conversations.column.bot": "机器人",
    "conversations.column.last": "最近消息",
    "artifacts": "查看制品的信息，取回其内容。",
    "artifacts.show": "显示一个制品的信息。",
    "artifacts.get": "把制品的内容写入文件。\n\n会校验摘要；不一致的内容不会保留。",
    "artifacts.id": "制品的 ID，见于记录和消息。",
    "artifacts.file": "写到哪里；- 表示标准输出。",
    "artifacts.remove": "提前删除一个制品。\n\n此后引用它的地方都找不到它。",
    "artifacts.removed": "制品 {artifact} 已移除",
    "artifacts.kept": "已写入 {file}（{size} 字节）",
    "error.content": "{artifact} 的内容与主机所说的不一致",
    "hint.content": "请重新获取；如仍不行，主机的磁盘可能已损坏",
}
