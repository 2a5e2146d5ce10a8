"""The report of a program: one page with its shardings, their reasons and their costs."""
