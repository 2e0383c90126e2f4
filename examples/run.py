"""Run a notebook headless, print its report, and keep an HTML copy.

    python examples/run.py NOTEBOOK DIRECTORY

The report is what the notebook's last ``%xla_graphs`` cell shows. The exit status is 1 where a cell raises or
no cell shows a report.
"""

import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbconvert import HTMLExporter
from nbformat import NotebookNode

REPORT_MAGIC = "%xla_graphs"


def run(notebook_path: Path, html_directory: Path) -> int:
    """Run the notebook where it stands; return the exit status."""
    notebook = nbformat.read(notebook_path, as_version=4)
    code_cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    print(f"Running {notebook_path}: {len(code_cells)} code cells", flush=True)

    failure = ""
    try:
        NotebookClient(notebook, timeout=None, resources={"metadata": {"path": notebook_path.parent}}).execute()
    except CellExecutionError as error:
        failure = str(error)

    # Also where a cell failed: the copy shows how far it came.
    html, _ = HTMLExporter().from_notebook_node(notebook)
    html_directory.mkdir(parents=True, exist_ok=True)
    html_path = html_directory / f"{notebook_path.stem}.html"
    html_path.write_text(html, encoding="utf-8")

    report = last_report(code_cells)
    if not failure and not report:
        failure = f"No cell of {notebook_path} shows a report ({REPORT_MAGIC})."
    if failure:
        print(f"{failure}\nHTML copy up to there: {html_path}", file=sys.stderr)
        return 1
    print(f"\n{report}\n\nHTML copy: {html_path}")
    return 0


def last_report(code_cells: list[NotebookNode]) -> str:
    """Return the text that the last cell with the report's magic shows, or an empty string."""
    for cell in reversed(code_cells):
        if REPORT_MAGIC in cell.source:
            return "\n".join(filter(None, map(output_text, cell.outputs)))
    return ""


def output_text(output: NotebookNode) -> str:
    """Return an output as a terminal would show it."""
    if output.output_type == "stream":
        return str(output.text).rstrip() if output.name == "stdout" else ""
    return str(output.get("data", {}).get("text/plain", "")).rstrip()


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(f"usage: python {sys.argv[0]} NOTEBOOK DIRECTORY")
    sys.exit(run(Path(sys.argv[1]), Path(sys.argv[2])))
