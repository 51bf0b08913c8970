"""What the command line says in Chinese about runtimes of other machines."""

from typing import Final

__all__ = ["RUNTIMES"]

RUNTIMES: Final = {
    # --- help ---
    "runtime": "在这台机器上为另一台机器上的主机运行插件。\n\n第一次需要一次性代码：在主机上用 `bollard "
    "runtimes enroll NAME` 取得。密钥在这里生成，不会离开这台机器。之后它会自行连接，断线后也会重新连接。",
    "runtime.connect": "主机：wss://host，或本机的 ws://127.0.0.1:PORT。",
    "runtime.enroll": "一次性代码；只在第一次需要。",
    "runtime.key": "密钥保存在哪里；不写则在用户设置目录下，每个主机和插件一个。",
    "runtimes": "列出其他机器上的运行时，登记、同意其插件、吊销。\n\n不带子命令时列出它们。",
    "runtimes.list": "列出运行时及其连接状态。",
    "runtimes.enroll": "打印一次性代码，让运行时以这个名称登记。",
    "runtimes.show": "显示一个运行时：何时连接、带来什么插件、插件有什么要求。",
    "runtimes.consent": "同意运行时带来的插件。\n\n同意只针对这份代码：代码改变后，要等到有人再次同意。",
    "runtimes.enable": "重新允许运行时连接。",
    "runtimes.disable": "暂时不允许运行时连接；它的运行会被结束。",
    "runtimes.revoke": "忘记运行时的密钥。连接立即断开，它的运行会被结束。",
    "runtimes.name": "运行时的名称。",
    "runtimes.plugin": "只允许它带来这个插件。",
    # --- as it works ---
    "runtime.enrolled": "已登记为 {name}；密钥在 {path}",
    "runtimes.enrolling": "在 {name} 所在的机器上运行（{until} 前有效）：",
    "runtimes.command": "  bollard runtime ./plugin --connect {url} --enroll {code}",
    "runtimes.once": "代码只能用一次，不会再次显示。连接后：bollard runtimes consent {name}",
    "runtimes.none": "还没有运行时；用 `bollard runtimes enroll NAME` 登记一个",
    "runtimes.consented": "{name} 可以执行运行了",
    "runtimes.enabled": "{name} 可以连接",
    "runtimes.disabled": "{name} 不可以连接",
    "runtimes.revoked": "{name} 已吊销",
    "runtimes.column.name": "运行时",
    "runtimes.column.status": "状态",
    "runtimes.column.plugin": "插件",
    "runtimes.column.since": "连接时间",
    "runtimes.column.ping": "延迟",
    "runtimes.column.runs": "运行",
    "runtimes.status.ready": "就绪",
    "runtimes.status.waiting": "等待",
    "runtimes.status.away": "离线",
    "runtimes.status.disabled": "已停用",
    "runtimes.head": "{name}：{status}",
    "runtimes.key": "密钥：{key}",
    "runtimes.enrolled": "由 {by} 于 {at} 登记",
    "runtimes.only": "只可带来 {plugin}",
    "runtimes.there": "自 {since} 连接，最近一次 {seen}，延迟 {ping}，运行：{runs}",
    "runtimes.worker": "运行 {name} {version}（{language}）",
    "runtimes.brings": "带来 {plugin} {version}，代码 {digest}，要求：",
    "runtimes.agreed": "{plugin} {version}（{digest}）由 {by} 于 {at} 同意",
    # --- what can go wrong ---
    "error.not_enrolled": "{path} 没有密钥",
    "hint.not_enrolled": "在主机上用 `bollard runtimes enroll NAME` 取得代码，再用 --enroll 传入",
    "error.runtime": "{detail}",
    "hint.runtime": "{advice}",
    "hint.runtime.reach": "检查地址，以及主机是否在那里监听",
}
