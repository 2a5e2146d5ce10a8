"""What names of the package were called before: each new name with its old ones. CONTRIBUTING.md says how to rename."""

from __future__ import annotations

from gspmd.dialect.renaming import Renamed

OLD_NAMES: dict[str, tuple[Renamed, ...]] = {}
