import { defineConfig } from 'vitest/config';

export default defineConfig({
  oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
  test: {
    environment: 'jsdom',
    testTimeout: 60_000,
    include: ['test/**/*.spec.{ts,tsx}']
  }
});
