"""Shardings: values, their notations, and their codecs. Imports no other package of gspmd."""
