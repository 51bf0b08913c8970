"""What the command line says in Chinese about files of a workspace."""

from typing import Final

__all__ = ["FILES"]

FILES: Final = {
    "files": "添加、列出、查看和移除工作区的文件，它们可以交给智能体。\n\n不带命令时列出它们。",
    "files.list": "列出工作区的文件。",
    "files.add": "向工作区添加一个文件。\n\n这样还没有人得到它：智能体的配置或策略会指定它拥有的文件。",
    "files.show": "查看一个文件的已知信息。",
    "files.remove": "移除一个文件。得到它的运行从此无法再读取它。",
    "files.path": "该文件。",
    "files.name": "它的名称；否则用它自己的名称。",
    "files.type": "它的媒体类型；否则按它的名称判断。",
    "files.id": "文件的 id。",
    "files.none": "工作区没有文件。添加一个：bollard files add PATH",
    "files.added": "已添加文件 {file}：{name}，{size} 字节",
    "files.next": "把它交给智能体：在其配置中选择 {file}，或在其策略的 access.resources.files.add 中写上它",
    "files.removed": "已移除文件 {file}",
    "files.column.file": "文件",
    "files.column.name": "名称",
    "files.column.type": "类型",
    "files.column.size": "字节",
    "error.file": "无法读取 {path}：{detail}",
    "hint.file": "请给出一个存在且您可以读取的文件",
    "error.file_large": "{path} 大于 {most} 字节",
    "hint.file_large": "给智能体一个更小的文件，或把它放在工具可以读取的地方",
}
