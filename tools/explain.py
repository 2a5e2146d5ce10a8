"""gspmd explain: why values are sharded as they are, and what conflicts cost."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING, Any

from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import UsageError
from gspmd.tools._partitioned import add_choice_arguments, partition, partition_options, source_of
from gspmd.tools._stages import stage
from gspmd.tools.command import ArgumentParser

if TYPE_CHECKING:
    from gspmd.suggestions.suggesting import Suggestions

NAME = "explain"
SUMMARY = "explain why values are sharded as they are, and what conflicts cost"
PRINTS_JSON = True
_MANY = 5  # selected values up to which each is explained in full
_HINT_TRIES, _HINT_TIME_S = 20, 20.0
_EPILOG = """\
Name a value as in FILE if FILE is MLIR text, else as --print-module prints it: %12, or @f:%3 for %3 of a called
function @f. The framework's name (state['params']['w']) or a source line (main.py:80) works as well. Without a
selection, the command prints a summary.

JSON: "mesh" (sizes of the axes), "values" and "conflicts". A value has "name", "kind", "label", "operation", "type",
"location", "called_for", "used_by", "sharding", "local_shape" and "derivations": of a "dimension" and its "axes",
"steps" back ("value", "dimension", "from_value", "from_dimension", "operation", "operation_value", "target",
"source", "location", "level", "priority") to an "origin" ("kind", "value", "label", "dimension", "sharding",
"location"). A conflict has "operation", "value", "location", "reasons", "tensors" ("place", "value", "has", "runs_as",
"derivations"), "collectives" ("kind", "axes", "bytes", "count", "cause", "location"), "bytes" (sent by a device in a
call of the program), "time_s" (seconds, estimated) and "alternatives" ("operands", "results", "bytes", "time_s",
"chosen"). With the conflicts come "refinements", values that run with another sharding than propagation chose, because
it lowers the total cost: "name", "operation", "location", "sharding" and "runs_as". If a part of the explanation
failed, which is a defect of gspmd, "unexplained" lists what is missing.
"""


def add_arguments(parser: ArgumentParser) -> None:
    parser.epilog = _EPILOG
    parser.add_argument("file", metavar="FILE", help="an annotated program; - for stdin")
    parser.add_argument("--value", action="append", default=[], metavar="V", help="explain a value; repeatable")
    parser.add_argument(
        "--full",
        action="store_true",
        help="explain each value in full, even where --value selects many",
    )
    parser.add_argument("--all", action="store_true", help="explain every value")
    parser.add_argument("--conflicts", action="store_true", help="explain every conflict")
    parser.add_argument(
        "--hints",
        action="store_true",
        help="try annotations for a short time and print those that would help (gspmd suggest)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--print-module", action="store_true", help="only print the program with the names of its values"
    )
    add_choice_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Exit code 0; errors are exceptions. The explanation is printed before `--strict` refuses the program."""
    if args.all and args.value:
        raise UsageError("--all and --value are both given", hint="give one of them", code=Code.OPTIONS_DISAGREE)
    source = source_of(args.file)
    _explain(args, source)
    if args.strict is not None:
        sys.stdout.flush()
        partition(source, args)
    return 0


def _explain(args: argparse.Namespace, source: Any) -> None:
    from gspmd.explanations import explanation
    from gspmd.explanations import text as explanation_text
    from gspmd.tables import fitted

    with stage("explaining"):
        found = explanation.explain(source, **partition_options(args))
        if args.print_module:
            print(found.given_text, end="")
            return
        selected = [value for name in args.value for value in found.find(name)] or list(found.values)
        everything = not (args.value or args.all or args.conflicts)
        conflicts = found.conflicts if args.conflicts or everything else ()
    hints = _hints(args, source) if args.hints else None
    if args.json:
        parts: dict[str, object] = {"mesh": dict(found.mesh.axes)}
        if args.value or args.all or everything:
            parts["values"] = [value.to_dict() for value in selected]
        if args.conflicts or everything:
            parts["conflicts"] = [conflict.to_dict() for conflict in conflicts]
            parts["refinements"] = [value.to_dict() for value in found.refinements]
        if hints is not None:
            parts["hints"] = hints.to_dict()["suggestions"]
        if found.unexplained:
            parts["unexplained"] = list(found.unexplained)
        print(json.dumps(parts, indent=2))
        return
    blocks = [str(found).splitlines()] if everything else []
    shown = selected if args.value or args.all else []
    if len(shown) > _MANY and not (args.all or args.full):
        blocks += [explanation_text.values_table(shown), ["explain each with --full, or one with --value %name"]]
    else:
        blocks += [explanation_text.value_lines(value) for value in shown]
        blocks += [explanation_text.level_lines(shown)] if shown else []
    if args.conflicts:
        blocks += [explanation_text.conflict_lines(conflict) for conflict in conflicts]
        blocks.append(explanation_text.conflict_summary_lines(conflicts))
    if not everything:
        blocks.append(explanation_text.unexplained_lines(found.unexplained))
    blocks = [fitted(lines) for lines in blocks if lines]
    if hints is not None:
        blocks += _hint_blocks(hints)
    print("\n\n".join("\n".join(lines) for lines in blocks))


def _hints(args: argparse.Namespace, source: Any) -> Suggestions:
    """Annotations that would lower the cost, out of a few that are tried."""
    from gspmd.suggestions.suggesting import suggest

    with stage("trying annotations"):
        return suggest(source, **partition_options(args), tries=_HINT_TRIES, time_limit_s=_HINT_TIME_S)


def _hint_blocks(hints: Suggestions) -> list[list[str]]:
    from gspmd.suggestions.text import hint_lines

    blocks = list(hint_lines(hints.found[:_MANY], hints.before))
    if not blocks:
        return [[f"no hints: none of the {hints.tried} annotations tried would help"]]
    return [["annotations that would help (gspmd suggest tries more):"], *blocks]
