import tseslint from 'typescript-eslint';

export default tseslint.config(
  { ignores: ['lib/', 'src/protocol/messages.ts'] },
  tseslint.configs.strictTypeChecked,
  {
    languageOptions: {
      parserOptions: {
        projectService: true,
        tsconfigRootDir: import.meta.dirname
      }
    }
  },
  { files: ['**/*.mjs'], extends: [tseslint.configs.disableTypeChecked] }
);
