"""What the command line says in Chinese about the audit."""

from typing import Final

__all__ = ["AUDIT"]

AUDIT: Final = {
    "audit": "把日志当作证据来读，并核实它是否原样未动。",
    "audit.verify": "用已签名的链头和见证核实整个存储的日志，或核实一份证明。\n\n主机在运行或不在运行时都可以"
    "用，不写入任何内容。若有内容与写入时不同，则以 1 结束，并指出位置。",
    "audit.witness": "见证所收到的内容：一个存有已签名链头的文件；否则用设置中的那个。可以给多次。",
    "audit.public_key": "要相信的公钥：64 位十六进制数字，或存有它的文件；否则用数据目录中的公钥。可以给多次。",
    "audit.proof": "核实一次运行的证明，而不是存储。",
    "audit.prove": "写出一个文件，证明一次运行的全部经过：它的事件、授权、记录，以及它们所通向的已签名链头。"
    "\n\n有公钥的人不需要这台主机，就能用 `bollard audit verify --proof` 核实它。",
    "audit.prove_run": "运行的 id。",
    "audit.prove_out": "要写的文件；已有的文件不会被覆盖。",
    "audit.show": "显示发生过的事，最新的在前。",
    "audit.export": "把发生过的事写进文件，每行一条 JSON 记录，最早的在前。日志会记下是谁取走的。",
    "audit.export_out": "要写的文件。",
    "audit.type": "只要这种类型的记录，例如 login.failed；可以给多次。",
    "audit.severity": "至少为 debug、info、warning、error 或 critical。",
    "audit.run": "只要与这次运行有关的。",
    "audit.actor": "只要这个人做的，例如 user:ann。",
    "audit.since": "不早于这段时间之前。",
    "audit.limit": "最多多少条。",
    "audit.none": "没有发生过这样的事",
    "audit.exported": "已把 {records} 条记录写入 {file}",
    "audit.problem": "{kind}：{place} 的第 {position} 条：{detail}",
    "audit.problem_record": "  在记录 {id} 附近",
    "audit.whole": "日志与写入时相同：{chains} 条链共 {records} 条记录，{heads} 个已签名的链头（密钥 {keys}）",
    "audit.broken": "日志与写入时不同：{chains} 条链的 {records} 条记录中有 {problems} 个问题",
    "audit.unsigned": "链末尾的 {count} 条记录没有已签名的链头覆盖：链头每分钟签一次，"
    "主机正常停止时也签，被强行终止时不签",
    "audit.dropped": "{count} 条记录的数据已按保留期限丢弃；它们的头部完整",
    "audit.no_witness": "没有读到见证：能写数据库并持有密钥的人可能截掉了末尾。用 --witness 指定一个",
    "audit.segments": "还核实了 {count} 个归档分段",
    "audit.proof_problem": "未能证明：{detail}",
    "audit.proved": "已证明：运行 {run}，{records} 条记录，由密钥 {keys} 签名",
    "audit.not_proved": "运行 {run} 的 {records} 条记录未能证明它（密钥 {keys}）",
    "audit.proof_unsigned": "{count} 条记录没有已签名的链头覆盖；在运行结束一分钟后再证明一次",
    "audit.proof_without_data": "证明中没有 {count} 条记录的数据：已被丢弃，或未给出",
    "audit.proof_own_key": "公钥来自证明本身。请把 {keys} 与主机管理者给你的公钥比较，或用 --public-key 给出。",
    "audit.prove_written": "已写入 {file}：运行 {run}，{records} 条记录",
    "error.audit_no_key": "{path} 中没有公钥",
    "hint.audit_no_key": "用 --public-key 给出；正在运行的主机在 GET /api/v1/audit/heads 给出它",
    "error.audit_key": "{value} 不是公钥",
    "hint.audit_key": "64 位十六进制数字，或存有它的文件",
    "error.audit_proof": "{path} 不能作为证明读取：{detail}",
    "hint.audit_proof": "`bollard audit prove RUN --out FILE` 会写出一份",
    "error.audit_schema": "数据库的架构是 {current}，这个版本读取的是 {needed}",
    "hint.audit_schema": "使用在其上运行的 Bollard 版本，或在没有主机运行时执行 `bollard migrate`",
}
