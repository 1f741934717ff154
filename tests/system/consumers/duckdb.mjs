// usage: duckdb.mjs PACKAGES FILES QUERY...     Prints the rows of each query on share/cowprof.sql as a line of JSON.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const [folder, files, ...queries] = process.argv.slice(2);
const { DuckDBInstance } = createRequire(`${folder}/package.json`)("@duckdb/node-api");
const connection = await (await DuckDBInstance.create(":memory:")).connect();
await connection.run(`SET VARIABLE cowprof_files = '${files}'`);
await connection.run(readFileSync(new URL("../../../share/cowprof.sql", import.meta.url), "utf8"));
for (const query of queries) {
  const rows = await connection.runAndReadAll(query);
  console.log(JSON.stringify(rows.getRowObjectsJson()));
}
