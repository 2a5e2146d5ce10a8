"""Finds the packages; everything else is in pyproject.toml.

In python/gspmd, links lead to the top-level folders. Archives and Windows lose links: then the folders are taken.
"""

import os

from setuptools import find_packages, setup
from setuptools.command.build_py import build_py

FOLDERS = ("dialect", "examples", "tools", "transforms")


class BuildWithoutLinks(build_py):
    """A map of packages to folders would do for this, but makes of an editable install a hook instead of a path."""

    def get_package_dir(self, package: str) -> str:
        linked = super().get_package_dir(package)
        return linked if os.path.isdir(linked) else os.path.join(*package.split(".")[1:])


inner = find_packages(include=[pattern for name in FOLDERS for pattern in (name, f"{name}.*")])
setup(
    packages=sorted({*find_packages("python"), *(f"gspmd.{name}" for name in inner)}),
    package_dir={"": "python"},
    cmdclass={"build_py": BuildWithoutLinks},
)
