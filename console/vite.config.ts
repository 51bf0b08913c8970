/// <reference types="vitest/config" />
import tailwindcss from "@tailwindcss/vite";
import react from "@vitejs/plugin-react";
import { readFileSync, writeFileSync } from "node:fs";
import { gzipSync } from "node:zlib";
import { defineConfig, type Plugin } from "vite";

const HOST = process.env.BOLLARD_URL ?? "http://127.0.0.1:8420";

export default defineConfig({
  plugins: [react(), tailwindcss(), compressed()],
  resolve: {
    alias: {
      "@": new URL("./src", import.meta.url).pathname,
      // Its browser build decodes `&amp;` by innerHTML, which the page's Trusted Types refuse; this one has a table.
      "decode-named-character-reference": new URL("./node_modules/decode-named-character-reference/index.js", import.meta.url).pathname,
      "remark-gfm": new URL("./src/ui/remark-gfm.ts", import.meta.url).pathname,
      // Streamdown's own plugins for HTML in Markdown: 90 kB that the page does not use.
      ...Object.fromEntries(["rehype-raw", "rehype-sanitize", "rehype-harden"].map((name) => [name, new URL("./src/ui/no-html.ts", import.meta.url).pathname])),
    },
  },
  build: {
    outDir: "../src/bollard/console",
    emptyOutDir: true,
    target: "es2022",
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
    chunkSizeWarningLimit: 1_000,
  },
  server: { port: 8421, strictPort: false, proxy: { "/api": HOST, "/readyz": HOST } },
  test: {
    environment: "jsdom",
    include: ["src/**/*.test.{ts,tsx}", "client/tests/**/*.test.ts"],
    setupFiles: ["tests/setup.ts"],
  },
});

/** Writes a gzip copy beside every script and style sheet, which the host serves to browsers that accept it. */
function compressed(): Plugin {
  return {
    name: "compressed",
    apply: "build",
    writeBundle({ dir = "" }, bundle) {
      for (const name of Object.keys(bundle)) {
        if (/\.(js|css)$/.test(name)) writeFileSync(`${dir}/${name}.gz`, gzipSync(readFileSync(`${dir}/${name}`), { level: 9 }));
      }
    },
  };
}
