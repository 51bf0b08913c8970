"""What the command line says in Chinese about state."""

from typing import Final

__all__ = ["STATE"]

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
