"""Pipelines of passes, ours and MLIR's, and their text."""

from gspmd.pass_manager.manager import PassManager

__all__ = ["PassManager"]
