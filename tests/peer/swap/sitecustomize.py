"""Puts xla_notebook in the place of ``openxla``, in this process and in those that it starts.

Python imports a module of this name by itself; `run.py` puts the folder on PYTHONPATH.
"""

from torch._dynamo.backends import registry

from xla_notebook.backend.dynamo import xla_notebook

registry.lookup_backend("openxla")  # The registry fills itself at the first look-up.
registry._COMPILER_FNS["openxla"] = xla_notebook
