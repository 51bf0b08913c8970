import hooks from "eslint-plugin-react-hooks";
import tseslint from "typescript-eslint";

export default tseslint.config(
  { ignores: ["client/src/generated", "node_modules", "scripts", "src/**/generated", "test-results"] },
  ...tseslint.configs.strictTypeChecked,
  hooks.configs.flat.recommended,
  {
    languageOptions: { parserOptions: { projectService: { allowDefaultProject: ["*.js"] }, tsconfigRootDir: import.meta.dirname } },
    rules: {
      "@typescript-eslint/restrict-template-expressions": ["error", { allowNumber: true }],
      "@typescript-eslint/no-confusing-void-expression": ["error", { ignoreArrowShorthand: true }],
      "@typescript-eslint/no-misused-promises": ["error", { checksVoidReturn: { attributes: false } }],
      "no-restricted-syntax": [
        "error",
        { selector: "JSXAttribute[name.name='dangerouslySetInnerHTML']", message: "Render text, or use the Markdown component." },
        { selector: "MemberExpression[property.name=/^(innerHTML|outerHTML)$/]", message: "Render with React." },
      ],
    },
  },
  { files: ["tests/browser/**"], rules: { "react-hooks/rules-of-hooks": "off" } }, // `use` of a fixture is not a hook
  { files: ["**/*.js"], extends: [tseslint.configs.disableTypeChecked] },
);
