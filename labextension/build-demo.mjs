// Bundles test/demo.ts into one page, build/demo.html: open it in a browser, with ?scene=empty or ?panel=buffers.
import { mkdir, writeFile } from 'node:fs/promises';
import { bundle } from './bundle.mjs';

const { outputFiles } = await bundle('labextension/test/demo.ts', {
  write: false
});
const script = outputFiles[0].text.replaceAll('</script', '<\\/script');
await mkdir('build', { recursive: true });
await writeFile(
  'build/demo.html',
  `<!doctype html><html lang="en"><meta charset="utf-8"><title>The inspector's view</title>
<style>body { margin: 0; } #root { height: 100vh; }</style>
<main id="root"></main><script>${script}</script></html>
`
);
