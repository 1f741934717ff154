// Owns loading a module of web/src/data or web/src/core into Node: bundled from TypeScript, without a browser.
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";

const require = createRequire(new URL("../../web/package.json", import.meta.url));
const { build } = require("esbuild");

export async function loadSource(path) {
  const entry = fileURLToPath(new URL(`../../web/src/${path}`, import.meta.url));
  const { outputFiles } = await build({ entryPoints: [entry], bundle: true, format: "esm", write: false });
  return import(`data:text/javascript;base64,${Buffer.from(outputFiles[0].contents).toString("base64")}`);
}
