"""Error codes, one for each family of faults; `gspmd explain-error CODE` explains them.

The first two digits give the source of the fault: 01 the call, 02 a file, 03 to 05 the program, 06 the machine, 09
gspmd. The pages are in `error_pages`. A code keeps its meaning; a retired one is not used again.
"""

from __future__ import annotations

import enum


class Code(enum.StrEnum):
    """A family of faults."""

    USAGE = "G0100"
    UNKNOWN_OPTION = "G0101"
    BAD_VALUE = "G0102"
    OPTIONS_DISAGREE = "G0103"
    PIPELINE_TEXT = "G0104"
    UNKNOWN_PASS = "G0105"
    UNKNOWN_VALUE = "G0106"
    UNKNOWN_TARGET = "G0107"
    TOPOLOGY = "G0108"
    NO_MESH = "G0109"
    PARTITIONED_ALREADY = "G0110"

    CANNOT_READ = "G0201"
    CANNOT_WRITE = "G0202"
    BAD_FILE = "G0203"

    SYNTAX = "G0300"
    UNKNOWN_FORMAT = "G0301"
    NO_MAIN = "G0302"
    ELIDED = "G0303"
    SHARDING_TEXT = "G0304"
    TARGET_FILE = "G0305"
    SIGNATURE = "G0306"
    INVALID_OPERATION = "G0307"

    ANNOTATION = "G0400"
    AXIS_UNKNOWN = "G0401"
    AXIS_TWICE = "G0402"
    AXIS_PART = "G0403"
    RANK = "G0404"
    DEVICE_COUNT = "G0405"
    MESH = "G0406"
    MESH_UNKNOWN = "G0407"
    CONTRADICTION = "G0408"
    RULE = "G0409"
    DEVICE_LIST = "G0410"
    MANUAL = "G0411"
    GROUP = "G0412"
    MARKER = "G0413"

    UNSUPPORTED = "G0500"
    OPERATION = "G0501"
    CUSTOM_CALL = "G0502"
    DEVICE_ORDERS = "G0503"
    DYNAMIC_SHAPE = "G0504"
    COMMUNICATION = "G0505"
    HOST = "G0506"
    CALLS = "G0507"
    RESHARD = "G0508"
    REPLICAS = "G0509"
    LIMIT = "G0510"
    NO_PLAN = "G0511"
    NOT_PROVED = "G0512"

    EXECUTION = "G0600"
    TOO_FEW_DEVICES = "G0601"
    ARGUMENTS = "G0602"
    DONATED = "G0603"
    COMPILER = "G0604"
    OTHER_MACHINE = "G0605"
    MEMORY_KIND = "G0606"
    TIMEOUT = "G0607"

    INTERNAL = "G0900"
