"""Puts the package together from the folders of the source tree; everything else is in pyproject.toml."""

import os

from setuptools import find_packages, setup
from setuptools.command.build_py import build_py

FOLDERS = ("dialect", "examples", "tools", "transforms")


class BuildFromFolders(build_py):
    """Takes the package `gspmd` from python/, and what is in it from the top-level folders.

    A `package-dir` in pyproject.toml that names the folders would build the same wheel. But setuptools would make of an
    editable install a finder that is asked last, when any directory named `gspmd`, such as a clone in the current
    directory, has already been taken for the package. As it is, an editable install is a path: python/.
    """

    def get_package_dir(self, package: str) -> str:
        _, *inner = package.split(".")
        return os.path.join(*inner) if inner and inner[0] in FOLDERS else super().get_package_dir(package)


inner = find_packages(include=[pattern for name in FOLDERS for pattern in (name, f"{name}.*")])
setup(
    packages=[*find_packages("python"), *(f"gspmd.{name}" for name in inner)],
    package_dir={"": "python"},
    cmdclass={"build_py": BuildFromFolders},
)
