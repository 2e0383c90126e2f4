"""The safe Dynamo-XLA backend: ``torch.compile(fn, backend="xla_notebook")``. Knows nothing of notebooks."""
