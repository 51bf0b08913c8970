"""What the command line says in English about skills."""

from typing import Final

__all__ = ["SKILLS"]

SKILLS: Final = {
    "skills": "Add, list, show and remove skills: folders with a SKILL.md that teach agents something.\n\n"
    "Without a command it lists them.",
    "skills.list": "List the skills of the workspace, and those that its plugins bring.",
    "skills.add": "Add a folder as a skill, or as the new version of one.\n\n"
    "Nobody gets it by that: an agent's policy names the skills that it has.",
    "skills.show": "Show a skill: what it is for, its files, what it asks for, its text.",
    "skills.remove": "Remove a skill, with every version of it.",
    "skills.name": "The name of the skill.",
    "skills.folder": "A folder called as the skill, with SKILL.md at its top.",
    "skills.none": "The workspace has no skills. Add one: bollard skills add FOLDER",
    "skills.saved": "skill {skill} saved as version {version}, revision {revision}",
    "skills.wishes": "it asks for these tools, which grants none of them: {tools}",
    "skills.next": "give it to an agent: name {skill} in its policy, access.resources.skills.add",
    "skills.removed": "skill {skill} removed",
    "skills.head": "{skill}: {description}",
    "skills.version": "version {version}, one of {count}",
    "skills.authored": "written by {by}, not by a person: what it says is not to be trusted",
    "skills.file": "  {path} ({size} bytes)",
    "skills.unusable": "cannot be used: {reason}",
    "skills.column.skill": "Skill",
    "skills.column.source": "From",
    "skills.column.version": "Version",
    "skills.column.about": "About",
    "error.skill": "{path} is no skill that can be used: {detail}",
    "hint.skill_folder": "name a folder with a SKILL.md in it",
}
