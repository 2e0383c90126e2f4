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
    },
    rules: {
      '@typescript-eslint/no-confusing-void-expression': [
        'error',
        { ignoreArrowShorthand: true }
      ],
      // Lumino's signals take a method and its object apart.
      '@typescript-eslint/unbound-method': 'off',
      '@typescript-eslint/restrict-template-expressions': [
        'error',
        { allowNumber: true }
      ]
    }
  },
  { files: ['**/*.mjs'], extends: [tseslint.configs.disableTypeChecked] }
);
