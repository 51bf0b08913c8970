import type { ReactNode } from "react";
import { useConnection } from "@/api/live";
import { catalogue, useText } from "@/i18n/i18n";
import { Time } from "@/ui/data";

const texts = catalogue(
  { reconnecting: "The connection to the host is lost. Reconnecting…", offline: "This device is offline. The page goes on by itself when the network is back.", since: "Since" },
  { reconnecting: "与主机的连接已断开，正在重新连接…", offline: "设备已离线。网络恢复后页面会自动继续。", since: "始于" },
);

/** A thin line under the top bar: nothing while the connection is live, else what is wrong and since when. */
export function ConnectionLine(): ReactNode {
  const t = useText(texts);
  const { status, since } = useConnection();
  const bad = status === "reconnecting" || status === "offline";
  return (
    <div role="status" aria-live="polite" className="shrink-0">
      {bad ? (
        <div className="relative overflow-hidden border-b border-wait-line bg-wait-soft px-4 py-1 text-sm text-wait">
          {t(status)} <span className="opacity-80">({t("since")} <Time at={since / 1000} />)</span>
          <span aria-hidden className="absolute bottom-0 left-0 h-0.5 w-1/4 animate-slide bg-wait-line" />
        </div>
      ) : null}
    </div>
  );
}
