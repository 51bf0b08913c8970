/** One item: what it is, its README, and the button that leads to its consent. */
import { getCatalogueItem, saveSkill, type CatalogueItemWhole, type SaveSkillData } from "@bollard/client";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { useSession } from "@/api/session";
import { useLanguage, useText } from "@/i18n/i18n";
import { localized } from "@/parts/runner-form/form-items";
import { Button } from "@/ui/button";
import { Card, Code, Facts } from "@/ui/data";
import { ErrorNote, Skeleton } from "@/ui/feedback";
import { Markdown } from "@/ui/markdown";
import { Dialog } from "@/ui/overlay";
import { useNotes } from "@/ui/toast";
import { hasUpdate, InstalledBadge } from "./installed-badge";
import { Tag } from "./tag";
import { texts } from "./texts";

export function ItemSheet({ itemRef, onClose }: { itemRef: string; onClose: () => void }): ReactNode {
  const { language } = useLanguage();
  const [source = "", item_id = ""] = itemRef.split("/");
  const query = useQuery({ queryKey: ["catalogue", "one", itemRef], queryFn: () => getCatalogueItem({ path: { source, item_id } }) });
  const item = query.data;
  return (
    <Dialog open place="side" title={item === undefined ? itemRef : localized(item.label, language)} onOpenChange={onClose} footer={item === undefined ? undefined : <Install item={item} onDone={onClose} />}>
      {query.error === null ? null : <ErrorNote error={query.error} onRetry={() => void query.refetch()} />}
      {item === undefined ? (query.isPending ? <Skeleton rows={3} /> : null) : <Whole item={item} />}
    </Dialog>
  );
}

function Whole({ item }: { item: CatalogueItemWhole }): ReactNode {
  const t = useText(texts);
  const { language } = useLanguage();
  const readme = item.readme[language === "zh" ? "zh_Hans" : "en_US"] ?? item.readme.en_US ?? Object.values(item.readme)[0];
  return (
    <div className="flex flex-col gap-4">
      <p className="wrap-anywhere">{localized(item.description, language)}</p>
      <Facts
        items={[
          [t("kind"), <span key="kind" className="inline-flex flex-wrap gap-2">{t(item.kind)}<InstalledBadge item={item} /></span>],
          [t("name"), <code key="name" className="font-mono text-sm wrap-anywhere">{item.name}</code>],
          [t("version"), item.version],
          [t("source"), t(item.ref.startsWith("bundled/") ? "bundled" : "remote")],
          [t("needs"), item.secrets.length === 0 ? undefined : <code key="needs" className="font-mono text-sm">{item.secrets.join(", ")}</code>],
          [t("tags"), item.tags.length === 0 ? undefined : <span key="tags" className="flex flex-wrap gap-1.5">{item.tags.map((tag) => <Tag key={tag} name={tag} />)}</span>],
        ]}
      />
      {item.server === undefined ? null : <Card title={t("connection")}><Code text={JSON.stringify(item.server, null, 2)} label={t("connection")} /></Card>}
      {filesOf(item).map(({ path, text }) => <Card key={path} title={path}><Code text={text} label={path} /></Card>)}
      {readme === undefined ? (item.kind === "plugin" ? <p className="text-muted">{t("noReadme")}</p> : null) : <Card title={t("readme")}><Markdown text={readme} /></Card>}
    </div>
  );
}

interface SkillFile {
  path: string;
  text: string;
}

/** The text files of a skill, which a person reads before saving it. */
function filesOf({ skill }: CatalogueItemWhole): SkillFile[] {
  const files = (skill as { files?: unknown } | undefined)?.files;
  return Array.isArray(files) ? files.filter((each: Partial<SkillFile>): each is SkillFile => typeof each.path === "string" && typeof each.text === "string") : [];
}

/** The next step, for those who may take it. Plugins and servers are installed on their own pages, with the consent of every installation. */
function Install({ item, onDone }: { item: CatalogueItemWhole; onDone: () => void }): ReactNode {
  const t = useText(texts);
  const { may } = useSession();
  const navigate = useNavigate();
  const notes = useNotes();
  const queries = useQueryClient();
  const saving = useMutation({
    mutationFn: () => saveSkill({ path: { skill_id: item.name }, body: { ...(item.skill as SaveSkillData["body"]), revision: 0 } }),
    onSuccess: () => {
      void queries.invalidateQueries({ queryKey: ["skills"] });
      void queries.invalidateQueries({ queryKey: ["catalogue"] });
      notes.done(t("saved", { name: item.name }));
      onDone();
    },
    onError: notes.failed,
  });
  if (item.kind === "plugin") {
    const fits = item.installed === null || item.installed.origin === "installed";
    return may("plugins.write") && fits ? <Button kind="primary" onClick={() => void navigate({ to: "/plugins", search: { install: item.ref } })}>{t(hasUpdate(item) ? "review" : "install")}</Button> : null;
  }
  if (item.installed !== null) return <p className="text-sm text-muted">{t("exists")}</p>;
  if (item.kind === "mcp_server") return may("mcp.write") ? <Button kind="primary" onClick={() => void navigate({ to: "/mcp-servers", search: { add: item.ref } })}>{t("connect")}</Button> : null;
  return may("skills.write") ? <Button kind="primary" busy={saving.isPending} onClick={() => saving.mutate()}>{t("save")}</Button> : null;
}
