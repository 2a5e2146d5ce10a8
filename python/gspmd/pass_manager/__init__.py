"""Pipelines of passes of gspmd and MLIR, and their textual form."""

from gspmd.pass_manager.manager import PassManager

__all__ = ["PassManager"]
