import { catalogue } from "@/i18n/i18n";

/** The tags of the bundled catalogue. Other catalogues bring tags of their own, which stay as they are. */
export const tagTexts = catalogue(
  { runner: "runner", tool: "tool", agent: "agent", approval: "approval", example: "example", "no model": "no model", web: "web", files: "files", code: "code" },
  { runner: "运行器", tool: "工具", agent: "智能体", approval: "审批", example: "示例", "no model": "无需模型", web: "网页", files: "文件", code: "代码" },
);

export const texts = catalogue(
  {
    title: "Catalogue", about: "Plugins, MCP servers and skills that this workspace can install. You consent to each of them.", search: "Search", kind: "Kind", all: "All kinds",
    plugin: "Plugin", mcp_server: "MCP server", skill: "Skill", installed: "Installed", included: "Included", update: "Update to {version}", nothing: "Nothing matches", nothingWords: "Try other words or another kind.", clear: "Clear search",
    problem: "The catalogue at {url} shows its last items.", name: "Name", version: "Version", source: "Catalogue", tags: "Tags", bundled: "Bundled with the host", remote: "From the settings", needs: "Secrets that it needs",
    connection: "Connection", files: "Its files", readme: "README", noReadme: "It has no README.", install: "Review and install", review: "Review the update", connect: "Fill in and try", save: "Save skill", saved: "Saved {name}. An agent gets it when its policy names it.", open: "Open {name}",
    exists: "The workspace has something with this name. Installing it again replaces nothing.", more: "Load more",
  },
  {
    title: "目录", about: "此工作区可以安装的插件、MCP 服务器和技能。每一项都需要你同意。", search: "搜索", kind: "类型", all: "所有类型",
    plugin: "插件", mcp_server: "MCP 服务器", skill: "技能", installed: "已安装", included: "已内置", update: "可更新到 {version}", nothing: "没有匹配的内容", nothingWords: "请尝试其他词或其他类型。", clear: "清除搜索",
    problem: "{url} 的目录显示的是上次获取的内容。", name: "名称", version: "版本", source: "目录", tags: "标签", bundled: "主机自带", remote: "来自设置", needs: "需要的机密",
    connection: "连接", files: "它的文件", readme: "说明", noReadme: "没有 README。", install: "查看并安装", review: "查看更新", connect: "填写并试用", save: "保存技能", saved: "已保存 {name}。智能体的策略列出它之后才能使用。", open: "打开 {name}",
    exists: "工作区中已有同名的内容，再次安装不会替换它。", more: "加载更多",
  },
);
