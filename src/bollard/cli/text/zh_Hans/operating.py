"""What the command line says in Chinese about draining a host."""

from typing import Final

__all__ = ["OPERATING"]

OPERATING: Final = {
    "drain": "让主机不再接受新任务，以便在无人察觉的情况下停止它。\n\n"
    "正在进行的运行会继续，等待中的运行保留在磁盘上，/readyz 会反映这一状态。",
    "drain.option.undo": "重新接受任务。",
    "drain.option.wait": "等到没有任何运行在进行。",
    "drain.on": "{address} 不再接受新任务：{live} 个运行继续进行，{queued} 个在磁盘上等待",
    "drain.off": "{address} 重新接受任务",
    "drain.empty": "那里已没有运行在进行",
    "error.drain": "--undo 与 --wait 不能同时使用",
    "hint.drain": "只给出其中一个",
}
