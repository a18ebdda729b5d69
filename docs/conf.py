"""Sphinx configuration: MyST pages, doctests, warnings are errors (see the Makefile)."""

project = "attenio"
author = "The attenio authors"
project_copyright = "2026, the attenio authors"
extensions = ["myst_parser", "sphinx.ext.doctest", "sphinx.ext.mathjax"]
myst_enable_extensions = ["dollarmath", "amsmath", "deflist"]
myst_heading_anchors = 3
html_theme = "furo"
html_title = "attenio"
exclude_patterns = ["_build"]
doctest_test_doctest_blocks = "default"
