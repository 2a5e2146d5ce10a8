"""Programs compiled for machines that need not be here, and what their compilers say of them."""
