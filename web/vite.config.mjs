// Owns the bundling of the viewer: everything is inlined into dist/index.html.
// tools/seal.mjs then turns index.html into template.html.
// Does not: know the page's data or its security policy.
import { defineConfig } from "vite";
import { viteSingleFile } from "vite-plugin-singlefile";

export default defineConfig({
  plugins: [viteSingleFile({ removeViteModuleLoader: true })],
  build: { target: "es2022", modulePreload: false, reportCompressedSize: false },
});
