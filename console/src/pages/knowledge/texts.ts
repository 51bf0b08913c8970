import { catalogue } from "@/i18n/i18n";

export const texts = catalogue(
  {
    title: "Knowledge", about: "A knowledge base holds documents. Agents search it and name their sources.", empty: "No knowledge base yet", add: "Add base", id: "Id", idHelp: "Lower-case letters, digits, dots, dashes and underscores.",
    name: "Name", description: "Description", search: "Search", bundled: "By meaning and words", none: "By words", save: "Save base", saved: "Saved {id}.", deletion: "Every document of the base is deleted with its index.",
    settings: "Settings", documents: "Documents", test: "Test retrieval", upload: "Add documents", choose: "Choose files", pickHelp: "Text, Markdown, HTML, PDF or DOCX, at most 32 MiB each. Several at once are fine.",
    noDocuments: "No document yet", noDocumentsAbout: "Add files. Each is cut into passages and indexed; the table shows the progress.", size: "Size", state: "State", changed: "Changed", waiting: "Waiting", indexing: "Indexing", ready: "Ready", failed: "Failed",
    progress: "{done} of {count} passages", passages_one: "{count} passage", passages_other: "{count} passages", retry: "Try again", retried: "{name} is indexed again.", remove: "Delete", removeTitle: "Delete {name}?", removeWords: "The document and its passages are deleted. Answers that name it keep their text.", removed: "Deleted {name}.",
    reindex: "Index again", reindexTitle: "Index every document again?", reindexWords: "The documents are indexed one after the other in the background. Search keeps working.", reindexed: "The documents are indexed again.",
    sending: "{name}: {percent} %", sent_one: "{count} document added.", sent_other: "{count} documents added.", skipped: "Not added: {names}. These formats cannot be read.", skippedHint: "Text, Markdown, HTML, PDF and DOCX are read.", sendFailed: "{name} was not added.",
    query: "Question", queryHelp: "What an agent would look up.", ask: "Find passages", noPassages: "Nothing fits the question.", score: "Score", source: "Source", more: "Load more", download: "Download {name}",
  },
  {
    title: "知识库", about: "知识库保存文档。智能体检索它，并注明来源。", empty: "还没有知识库", add: "添加知识库", id: "ID", idHelp: "可用小写字母、数字、点、短横线和下划线。",
    name: "名称", description: "说明", search: "检索方式", bundled: "按语义和词语", none: "按词语", save: "保存知识库", saved: "已保存 {id}。", deletion: "知识库的所有文档和索引都会被删除。",
    settings: "设置", documents: "文档", test: "检索测试", upload: "添加文档", choose: "选择文件", pickHelp: "文本、Markdown、HTML、PDF 或 DOCX，每个最大 32 MiB，可一次选多个。",
    noDocuments: "还没有文档", noDocumentsAbout: "添加文件。每个文件会被切成段落并建立索引，表中显示进度。", size: "大小", state: "状态", changed: "更新时间", waiting: "等待中", indexing: "索引中", ready: "就绪", failed: "失败",
    progress: "{done} / {count} 段", passages_one: "{count} 段", passages_other: "{count} 段", retry: "重试", retried: "正在重新索引 {name}。", remove: "删除", removeTitle: "删除 {name}？", removeWords: "文档及其段落会被删除。引用过它的回答保留原文。", removed: "已删除 {name}。",
    reindex: "重新索引", reindexTitle: "重新索引所有文档？", reindexWords: "文档会在后台逐个重新索引。检索仍可使用。", reindexed: "正在重新索引文档。",
    sending: "{name}：{percent}%", sent_one: "已添加 {count} 个文档。", sent_other: "已添加 {count} 个文档。", skipped: "未添加：{names}。无法读取这些格式。", skippedHint: "可读取文本、Markdown、HTML、PDF 和 DOCX。", sendFailed: "未能添加 {name}。",
    query: "问题", queryHelp: "智能体会检索的内容。", ask: "查找段落", noPassages: "没有符合问题的内容。", score: "得分", source: "来源", more: "加载更多", download: "下载 {name}",
  },
);
