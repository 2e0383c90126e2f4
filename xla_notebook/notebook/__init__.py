"""IPython and Jupyter: the magics, the reports, and what tells whether the installation is sound."""
