// Writes the blocks of TypeScript and JavaScript in the documentation as files into this folder, of which scripts/test compiles the first, and checks the
// syntax of the others: they are for other systems. The argument is the folder of the repository.
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const root = process.argv[2];
const pages = ["README.md", ...readdirSync(join(root, "docs"), { recursive: true }).map((name) => `docs/${name}`)];
let written = 0;
for (const page of pages.filter((name) => name.endsWith(".md") && !name.startsWith("docs/adr/"))) {
  for (const [, language, text] of readFileSync(join(root, page), "utf8").matchAll(/^```(ts|js)\n([\s\S]*?)^```$/gm)) {
    written++;
    const name = `block-${page.replaceAll("/", "-").replace(".md", "")}-${written}.${language === "ts" ? "mts" : "mjs"}`;
    writeFileSync(name, text);
  }
}
if (written < 6) throw new Error(`the documentation has only ${written} blocks`);
// The code around the blocks.
writeFileSync("blocks.d.ts", "declare const send: any, register: any, assert: any;\n");
