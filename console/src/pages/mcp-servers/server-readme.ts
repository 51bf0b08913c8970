/** The README of a server's catalogue item. The host does not store where a server came from: name and connection must match. */
import { getCatalogueItem, listCatalogue, type CatalogueItemWhole, type McpServerWhole } from "@bollard/client";
import { useQuery } from "@tanstack/react-query";
import { useSession } from "@/api/session";
import { useLanguage } from "@/i18n/i18n";

type Connection = Pick<McpServerWhole, "command" | "args" | "url">;

export function useServerReadme(server: McpServerWhole): string | undefined {
  const { may } = useSession();
  const { language } = useLanguage();
  const name = server.server_id;
  const { data } = useQuery({
    queryKey: ["catalogue", "server", name],
    queryFn: async () => {
      const { items } = await listCatalogue({ query: { kind: "mcp_server", search: name, limit: 100 } });
      const refs = items.filter((item) => item.name === name).map((item) => item.ref.split("/"));
      return Promise.all(refs.map(([source = "", item_id = ""]) => getCatalogueItem({ path: { source, item_id } })));
    },
    enabled: may("plugins.read"),
    staleTime: Infinity,
  });
  const readme = data?.find((item) => isOf(item, server))?.readme;
  return readme?.[language === "zh" ? "zh_Hans" : "en_US"] ?? readme?.en_US;
}

/** Whether the item describes this connection: the same program with the same arguments, or the same address. */
export function isOf(item: Pick<CatalogueItemWhole, "server">, server: Connection): boolean {
  const of = ({ command, args, url }: Connection): string => JSON.stringify([command, args ?? [], url]);
  return item.server !== undefined && of(item.server) === of(server);
}
