import hooks from "eslint-plugin-react-hooks";
import tseslint from "typescript-eslint";

// Texts of the API are written by others. They are shown as text, never as markup,
// and never become a part of an address without encoding.
const unsafe = [
  ["JSXAttribute[name.name='dangerouslySetInnerHTML'], Property[key.name='dangerouslySetInnerHTML']", "Show text as text."],
  ["MemberExpression[property.name=/^(innerHTML|outerHTML|insertAdjacentHTML|srcdoc)$/]", "Show text as text."],
  ["MemberExpression[object.name='document'][property.name=/^(write|writeln|cookie)$/]", "Not used in the console."],
  ["JSXAttribute[name.name=/^(href|src|action|formAction)$/] TemplateLiteral", "Build addresses with href() of router.ts."],
  ["JSXAttribute[name.name=/^(href|src|action|formAction)$/] BinaryExpression", "Build addresses with href() of router.ts."],
  ["AssignmentExpression[left.property.name=/^(href|hash|location)$/]", "Use navigate() of router.ts."],
  ["NewExpression[callee.name='Function'], CallExpression[callee.name='eval']", "No code from text."],
  ["Identifier[name=/^(localStorage|sessionStorage|indexedDB)$/]", "The token is kept in memory only."],
].map(([selector, message]) => ({ selector, message }));

export default tseslint.config(
  { ignores: ["dist", "node_modules", "src/api/schema.ts"] },
  ...tseslint.configs.strict,
  { rules: { "@typescript-eslint/no-non-null-assertion": "off" } }, // where the type cannot say it
  {
    files: ["src/**/*.{ts,tsx}"],
    plugins: { "react-hooks": hooks },
    rules: {
      "react-hooks/rules-of-hooks": "error",
      "react-hooks/exhaustive-deps": "error",
      "no-restricted-syntax": ["error", ...unsafe],
    },
  },
  { files: ["src/router.ts"], rules: { "no-restricted-syntax": ["error", ...unsafe.filter((r) => !r.message.startsWith("Use navigate"))] } },
);
