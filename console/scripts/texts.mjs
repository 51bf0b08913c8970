// The Chinese sentences of the host's errors, by code and reason, are those of the command line: one source for both.
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const texts = fileURLToPath(new URL("../../src/bollard/cli/text/zh_Hans/", import.meta.url));
const out = fileURLToPath(new URL("../src/i18n/generated/", import.meta.url));
const read = (path) => JSON.parse(readFileSync(path, "utf8"));
const folder = (name) => Object.assign({}, ...readdirSync(`${texts}${name}`).sort().map((file) => read(`${texts}${name}/${file}`)));
mkdirSync(out, { recursive: true });
writeFileSync(`${out}errors.zh.json`, JSON.stringify({ reasons: folder("reasons"), problems: folder("problems") }));
