"""What the command line says in Chinese about skills."""

from typing import Final

__all__ = ["SKILLS"]

SKILLS: Final = {
    "skills": "添加、列出、查看和移除技能：带有 SKILL.md 的文件夹，用来教会智能体做某件事。\n\n不带子命令时列出全部。",
    "skills.list": "列出工作区的技能，以及插件带来的技能。",
    "skills.add": "把一个文件夹添加为技能，或作为已有技能的新版本。\n\n"
    "这不会把技能授予任何智能体：由智能体的策略指明它拥有哪些技能。",
    "skills.show": "查看技能：用途、文件、它请求的工具和正文。",
    "skills.remove": "移除技能及其全部版本。",
    "skills.name": "技能的名称。",
    "skills.folder": "与技能同名的文件夹，顶层有 SKILL.md。",
    "skills.none": "工作区没有技能。添加一个：bollard skills add FOLDER",
    "skills.saved": "技能 {skill} 已保存为版本 {version}，修订 {revision}",
    "skills.wishes": "它请求以下工具，但不会因此获得任何一个：{tools}",
    "skills.next": "授予智能体：在其策略的 access.resources.skills.add 中写入 {skill}",
    "skills.removed": "技能 {skill} 已移除",
    "skills.head": "{skill}：{description}",
    "skills.version": "版本 {version}，共 {count} 个版本",
    "skills.authored": "由 {by} 编写，不是人写的：其内容不可信",
    "skills.file": "  {path}（{size} 字节）",
    "skills.unusable": "无法使用：{reason}",
    "skills.column.skill": "技能",
    "skills.column.source": "来源",
    "skills.column.version": "版本",
    "skills.column.about": "说明",
    "error.skill": "{path} 不是可用的技能：{detail}",
    "hint.skill_folder": "请指定一个带有 SKILL.md 的文件夹",
}
