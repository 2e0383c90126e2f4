"""The cells that the tests of this directory run."""

from __future__ import annotations

LOAD = "%load_ext xla_notebook\nimport time, torch, torch_xla"
SHOW = "%xla_inspect"
STEP = '%%xla_compile --name relu_sum\nx = torch.ones(64, 32, device="xla")\ny = (x @ x.T).relu().sum()'
# Runs until the test lets it go on, however slow the machine is.
BUSY = "import pathlib\nwhile not pathlib.Path('{go}').exists():\n    time.sleep(0.05)\n{after}"
DOUBLE = 'double = torch.compile(lambda t: t * 2, backend="xla_notebook")\nz = double(x)'
# What an executing warm-up did before it was made safe: it donates the buffer that the real run needs.
HAZARD = """class Counter(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("n", torch.zeros(4))

    def forward(self, x):
        self.n.add_(1)
        return x + self.n

counter = Counter().to("xla").eval()
count = torch.compile(counter, backend="xla_notebook", options={"warm_up": "execute"})
with torch.no_grad():
    print(count(torch.ones(4, device="xla")).cpu().tolist())"""
OTHER_STEP = STEP.replace("relu_sum", "other_graph")
# Where only the button loads the extension.
TORCH_STEP = STEP.replace("\n", "\nimport time, torch\n", 1)
# A graph that keeps a constant; then a twin of it, as another extension could make one, is updated in place.
SAVED = """keeps = torch.compile(lambda x: x * torch.tensor([1.0, 2.0], device=x.device), backend="xla_notebook")
x = torch.ones(2, device="xla")
y = keeps(x)"""
DONATED = """import xla_notebook
from xla_notebook.backend import cache, runtime
twin = runtime.wrapper(cache.graphs()[0].saved[0]).add_(1)
torch_xla.sync(wait=True)
xla_notebook.session().set(on_donated="raise")
keeps(x)"""
# Its first line is short: JupyterLab hides the toolbar of a cell whose text would lie below it.
TWO_GRAPHS = """sizes = 2, 3
double = torch.compile(lambda t: t * 2, backend="xla_notebook", dynamic=False)
for size in sizes:
    double(torch.ones(size, device="xla"))"""
# No read shows that a mask, or a free function, waits for the device and computes on the host.
ON_HOST = """t = torch.tensor([[-1.0, 2.0], [3.0, -4.0]], device="xla")
kept = [t[t > bound] for bound in (0, 1, 2)]
same = torch.equal(t, t + 1)"""
