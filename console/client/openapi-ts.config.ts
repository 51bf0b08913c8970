import { defineConfig } from "@hey-api/openapi-ts";

export default defineConfig({
  input: "../../docs/reference/openapi.json",
  output: { path: "src/generated", clean: true },
  plugins: ["@hey-api/typescript", { name: "@hey-api/client-fetch", throwOnError: true }, { name: "@hey-api/sdk", responseStyle: "data" }],
});
