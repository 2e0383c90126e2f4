// Bundles the widget into the one ES module that the wheel carries, and says how big it is.
import { readFile } from 'node:fs/promises';
import { gzipSync } from 'node:zlib';
import { bundle } from './bundle.mjs';

const outfile = 'xla_notebook/static/widget.js';
const LIMIT_KB = 150;

await bundle('labextension/src/widget.ts', { outfile, format: 'esm' });
const kilobytes = gzipSync(await readFile(outfile)).length / 1000;
console.log(`${outfile}: ${kilobytes.toFixed(1)} kB gzipped`);
if (kilobytes > LIMIT_KB) {
  throw new Error(`${outfile} may be at most ${LIMIT_KB} kB gzipped`);
}
