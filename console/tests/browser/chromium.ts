import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync } from "node:fs";
import { homedir } from "node:os";
import { delimiter, join } from "node:path";
import { pathToFileURL } from "node:url";

const NAMES = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
const PACKAGE = "@sparticuz/chromium";
const VERSION = "147.0.0";

/**
 * The browser on the path, else Debian's package when the user may install it, else the one inside an npm package.
 * `BOLLARD_CHROMIUM` names another one.
 */
export function chromium(): string {
  const found = process.env.BOLLARD_CHROMIUM ?? onPath();
  if (found !== undefined) return found;
  if (process.getuid?.() === 0 && existsSync("/usr/bin/apt-get")) {
    execFileSync("apt-get", ["update", "-qq"], { stdio: "inherit" });
    execFileSync("apt-get", ["install", "-y", "-qq", "chromium", "fonts-noto-cjk"], { stdio: "inherit", env: { ...process.env, DEBIAN_FRONTEND: "noninteractive" } });
    const installed = onPath();
    if (installed !== undefined) return installed;
  }
  return inPackage();
}

function onPath(): string | undefined {
  for (const folder of (process.env.PATH ?? "").split(delimiter)) {
    for (const name of NAMES) {
      if (existsSync(`${folder}/${name}`)) return `${folder}/${name}`;
    }
  }
  return undefined;
}

/** Installs the package once, beside the other caches of the user, and unpacks its browser. */
function inPackage(): string {
  const folder = join(process.env.XDG_CACHE_HOME ?? join(homedir(), ".cache"), "bollard", `chromium-${VERSION}`);
  const module = join(folder, "node_modules", PACKAGE, "build/esm/index.js");
  try {
    if (!existsSync(module)) {
      mkdirSync(folder, { recursive: true });
      execFileSync("npm", ["install", "--prefix", folder, "--ignore-scripts", "--no-audit", "--no-fund", "--silent", `${PACKAGE}@${VERSION}`], { stdio: "inherit" });
    }
    const program = `const { default: chromium } = await import(${JSON.stringify(pathToFileURL(module).href)}); process.stdout.write(await chromium.executablePath())`;
    return execFileSync(process.execPath, ["--input-type=module", "--eval", program], { encoding: "utf8" });
  } catch (cause) {
    throw new Error("no Chromium was found\nhint: install the package chromium, or name a browser in BOLLARD_CHROMIUM", { cause });
  }
}
