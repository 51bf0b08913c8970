"""命令行关于机密的中文文字。"""

from typing import Final

__all__ = ["SECRETS"]

SECRETS: Final = {
    "secrets": "设置、列出和删除机密。\n\n不带子命令时列出机密。值不会再显示：需要它的地方写 secret:NAME。",
    "secrets.list": "列出机密：名字、何时设置、上次何时使用。",
    "secrets.set": "设置机密，或换一个值。\n\n值来自标准输入，或在终端上询问。",
    "secrets.remove": "删除机密。此后引用它的地方不再可用。",
    "secrets.name": "机密的名字。",
    "secrets.ask": "值",
    "secrets.saved": "机密 {name} 已设置；需要它的地方写 {reference}",
    "secrets.short": "它太短，无法从运行的输出中隐去",
    "secrets.removed": "已删除机密 {name}",
    "secrets.none": "还没有机密；用 `bollard secrets set NAME` 设置",
    "secrets.column.name": "机密",
    "secrets.column.set": "设置于",
    "secrets.column.used": "上次使用",
    "secrets.column.state": "状态",
    "secrets.never": "从未",
    "secrets.readable": "可用",
    "secrets.unreadable": "它的密钥文件不在这里：请重新设置",
    "error.secret_empty": "没有给出值",
    "hint.secret_empty": '用管道传入：`printf %s "$VALUE" | bollard secrets set NAME`',
}
