/** The commands of this extension; their menu entries and shortcuts are in `labextension/schema/settings.json`. */
export const Commands = {
  open: 'xla-notebook:open',
  load: 'xla-notebook:load-extension',
  warmUp: 'xla-notebook:toggle-warm-up',
  freeze: 'xla-notebook:toggle-freeze',
  clear: 'xla-notebook:clear',
  exportSession: 'xla-notebook:export',
  copyReport: 'xla-notebook:copy-report',
  showCellGraphs: 'xla-notebook:show-cell-graphs'
} as const;
