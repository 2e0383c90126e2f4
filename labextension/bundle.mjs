// How the page is bundled outside of JupyterLab, which has a builder of its own.
import { build } from 'esbuild';

/** Gives a style sheet as its text, with the ones that it imports. */
const styleText = {
  name: 'style-text',
  setup({ onLoad }) {
    onLoad({ filter: /\.css$/ }, async ({ path }) => {
      const { outputFiles } = await build({
        entryPoints: [path],
        bundle: true,
        minify: true,
        write: false
      });
      return { contents: outputFiles[0].text, loader: 'text' };
    });
  }
};

/** Bundle `entryPoint` into one module, with esbuild's `options` besides. */
export function bundle(entryPoint, options) {
  return build({
    entryPoints: [entryPoint],
    bundle: true,
    minify: true,
    target: 'es2020',
    jsx: 'automatic',
    jsxImportSource: 'preact',
    plugins: [styleText],
    ...options
  });
}
