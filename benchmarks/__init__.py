"""Side-by-side measurements against torch_xla's own Dynamo backend. Run with ``make bench``."""
