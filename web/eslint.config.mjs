// Owns the rules of `npm run lint`, for the viewer and its tests. The page's build doesn't need them: tsc checks the types there.
import { fileURLToPath } from "node:url";
import js from "@eslint/js";
import tseslint from "typescript-eslint";

export default tseslint.config(
  { ignores: ["web/dist/", "web/node_modules/", "tests/web/out/"] },
  js.configs.recommended,
  ...tseslint.configs.recommended,
  {
    files: ["web/src/**/*.ts"],
    languageOptions: { parserOptions: { project: "tsconfig.json", tsconfigRootDir: fileURLToPath(new URL(".", import.meta.url)) } },
    rules: {
      "@typescript-eslint/consistent-type-imports": ["error", { fixStyle: "inline-type-imports" }],
      "@typescript-eslint/no-floating-promises": "error",
      "@typescript-eslint/no-import-type-side-effects": "error",
      "no-duplicate-imports": "error",
      "eqeqeq": ["error", "smart"],
    },
  },
  // The tests hold code for Node and for the browser side by side, and look for control characters.
  { files: ["**/*.mjs"], rules: { "no-undef": "off", "no-control-regex": "off" } },
);
