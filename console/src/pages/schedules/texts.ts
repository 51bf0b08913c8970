import { catalogue } from "@/i18n/i18n";

export const texts = catalogue(
  {
    title: "Schedules", about: "A schedule starts an agent at set times: by cron, at an interval, or once.", add: "Add schedule", empty: "No schedule yet",
    id: "Id", idHelp: "Lower-case letters, digits, dots, dashes and underscores.", when: "When", cron: "Cron", every: "Interval", everySaid: "every {time}", at: "Once", agent: "Agent", byBindings: "Bindings choose",
    text: "Input", textHelp: "The message for the agent at each tick.", zone: "Time zone", next: "Next runs", noNext: "It never fires again.", save: "Save schedule", saved: "Saved {id}.",
    fire: "Run now", fired: "Started.", openRun: "Open run", pause: "Pause", resume: "Resume", paused: "Paused", active: "Active", ended: "Ended", state: "State", more: "More settings",
    deletion: "It never fires again. Runs that it started stay.", cronHelp: "Minute, hour, day of month, month, day of week.", everyHelp: "Seconds between two ticks, at least 10.",
    atHelp: "For example 2027-03-01T09:00:00+08:00. Without an offset the time zone applies.", examples: "Examples", weekdays: "Weekdays at 9:00", hourly: "Every hour", monthly: "The first of the month", last: "Last event",
  },
  {
    title: "定时任务", about: "定时任务在设定的时间启动智能体：按 cron、按间隔，或只启动一次。", add: "添加定时任务", empty: "还没有定时任务",
    id: "ID", idHelp: "可用小写字母、数字、点、短横线和下划线。", when: "时间", cron: "Cron", every: "间隔", everySaid: "每 {time}", at: "一次", agent: "智能体", byBindings: "由绑定选择",
    text: "输入", textHelp: "每次触发时告诉智能体的内容。", zone: "时区", next: "接下来的触发时间", noNext: "不会再触发。", save: "保存定时任务", saved: "已保存 {id}。",
    fire: "立即运行", fired: "已启动。", openRun: "打开运行", pause: "暂停", resume: "恢复", paused: "已暂停", active: "启用中", ended: "已结束", state: "状态", more: "更多设置",
    deletion: "它不会再触发，已启动的运行会保留。", cronHelp: "分、时、日、月、星期。", everyHelp: "两次触发之间的秒数，至少 10 秒。",
    atHelp: "例如 2027-03-01T09:00:00+08:00。没有偏移量时使用所选时区。", examples: "示例", weekdays: "工作日 9:00", hourly: "每小时", monthly: "每月一日", last: "最近事件",
  },
);
