"""Programs compiled for machines that need not be present, and their compilers' figures."""
