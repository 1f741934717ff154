// usage: speedscope.mjs PACKAGES FILE     Opens FILE as speedscope's own command does, and prints its table of frames:
// [total, self, name] each, as shown.
import { readFileSync, writeFileSync } from "node:fs";
import { basename } from "node:path";
import { startBrowser } from "../../web/browser.mjs";

const [folder, file] = process.argv.slice(2);
const script = `${file}.js`;
const contents = readFileSync(file).toString("base64");
writeFileSync(script, `speedscope.loadFileFromBase64(${JSON.stringify(basename(file))}, ${JSON.stringify(contents)})`);
const browser = await startBrowser();
// The table has only the rows that are in view.
const page = await browser.newPage({ viewport: { width: 1200, height: 20000 } });
const address = `file://${folder}/node_modules/speedscope/dist/release/index.html`;
await page.goto(`${address}#localProfilePath=${script.slice(1)}&view=sandwich`);
// There is a table of profiles, too.
await page.waitForFunction(() => [...document.querySelectorAll("td")].some((cell) => cell.textContent.endsWith("%)")));
const rows = await page.$$eval("tr", (rows) => rows.map((row) => [...row.querySelectorAll("td")].map((cell) => cell.textContent)));
console.log(JSON.stringify(rows.filter((cells) => cells[0]?.endsWith("%)"))));
await browser.close();
