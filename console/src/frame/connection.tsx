import type { ReactNode } from "react";
import { isLost, useConnection } from "@/api/live";
import { useFormats } from "@/i18n/format";
import { catalogue, useText } from "@/i18n/i18n";

const texts = catalogue(
  { live: "Live since {time}", reconnecting: "The connection to the host is lost. Reconnecting since {time}.", offline: "Offline since {time}. The page goes on by itself when the network is back." },
  { live: "实时连接，始于 {time}", reconnecting: "与主机的连接已断开，自 {time} 起正在重新连接。", offline: "自 {time} 起离线。网络恢复后页面会自动继续。" },
);

/** A thin line under the top bar: quiet while the connection is live, else what is wrong and since when. */
export function ConnectionLine(): ReactNode {
  const t = useText(texts);
  const { clock } = useFormats();
  const { status, since } = useConnection();
  const time = clock(since / 1000);
  return (
    <div className="relative shrink-0">
      {status === "live" ? (
        <div title={t("live", { time })} className="absolute inset-x-0 -top-px z-10 h-0.5 bg-accent/45"><span className="sr-only">{t("live", { time })}</span></div>
      ) : null}
      <div role="status" aria-live="polite">
        {isLost(status) ? (
          <div className="relative overflow-hidden border-b border-wait-line bg-wait-soft px-4 py-1 text-sm text-wait">
            {t(status, { time })}
            <span aria-hidden className="absolute bottom-0 left-0 h-0.5 w-1/4 animate-slide bg-wait-line" />
          </div>
        ) : null}
      </div>
    </div>
  );
}
