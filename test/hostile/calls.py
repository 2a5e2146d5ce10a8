"""The functions of the API as commands: what each is given, and everything that its result can be asked."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hostile.case import Case


def _source(case: Case) -> Any:
    """The program in the form that the case asks for."""
    name, data = next(iter(case.files))
    form = case.words[0]
    if form == "path":
        return Path(name)
    return data if form == "bytes" else data.decode("utf-8", "surrogateescape")


def _keywords(case: Case) -> dict[str, Any]:
    return dict(json.loads(case.words[1]))


def _partition(case: Case) -> None:
    import gspmd

    found = gspmd.partition(_source(case), **_keywords(case))
    _look_at(found)


def _look_at(found: Any) -> None:
    """Everything that a partitioned program can be asked."""
    str(found), found.module_text, found.mesh, found.num_partitions, found.collectives
    for sharding in (*found.in_shardings, *found.out_shardings):
        sharding.sdy, sharding.mhlo  # noqa: B018


def _propagate(case: Case) -> None:
    import gspmd

    str(gspmd.propagate(_source(case), **_keywords(case)))


def _explain(case: Case) -> None:
    import gspmd

    found = gspmd.explain(_source(case), **_keywords(case))
    json.dumps(found.to_dict())
    str(found)


def _cost(case: Case) -> None:
    import gspmd

    str(gspmd.cost(_source(case), **_keywords(case)))


def _report(case: Case) -> None:
    import gspmd

    found = gspmd.report(_source(case), **_keywords(case))
    json.loads(found.json())
    found.html(), found.trace(), repr(found)


def _suggest(case: Case) -> None:
    import gspmd

    found = gspmd.suggest(_source(case), **_keywords(case), tries=2)
    json.dumps(found.to_dict())
    str(found)
    if found.found:
        str(found.apply())


def _search(case: Case) -> None:
    import gspmd

    found = gspmd.search(_source(case), **_keywords(case), time_limit_s=0.1)
    json.dumps(found.to_dict())
    str(found), found.jax_code(), str(found.module)


def _check(case: Case) -> None:
    import gspmd

    report = gspmd.check(_source(case), **_keywords(case))
    json.dumps(report.to_dict())
    assert report.passed, "the partitioned program computes something else"


def _verify(case: Case) -> None:
    import gspmd

    found = gspmd.verify(_source(case), **_keywords(case))
    json.dumps(found.to_dict())
    str(found)
    assert found.verdict is not gspmd.Verdict.REFUTED, "the partitioned program is refuted"


def _compare(case: Case) -> None:
    import gspmd

    json.dumps(gspmd.compare_versions(_source(case), _source(case), **_keywords(case)).to_dict())


def _run(case: Case) -> None:
    import gspmd
    from gspmd.runtime.inputs import random_inputs

    executable = gspmd.compile(gspmd.partition(_source(case)))
    for result in executable(*random_inputs(executable.signature.inputs)):
        result.to_numpy()


def _compile(case: Case) -> None:
    import gspmd

    compiled = gspmd.compile_for(_source(case), "cpu", **_keywords(case))
    compiled.hlo_text  # noqa: B018
    compiled.save("c")
    gspmd.load_compiled("c")


def _load(case: Case) -> None:
    import gspmd

    gspmd.load_compiled("c")


def _passes(case: Case) -> None:
    import gspmd
    from gspmd.transforms.parsing.mlir import new_context, parse_module

    manager = gspmd.PassManager.parse(_keywords(case).get("passes", "builtin.module(gspmd-partition,cse)"))
    str(manager)
    source = _source(case)
    if isinstance(source, Path):
        source = source.read_bytes()
    module = parse_module(source, new_context())
    manager.run(module)
    str(module)


def _mesh(case: Case) -> None:
    import gspmd

    shapes, names = json.loads(case.words[0])
    gspmd.make_mesh(shapes, names)


def _program(case: Case) -> None:
    import gspmd

    function, source = case.words[0], json.loads(case.words[1])
    getattr(gspmd, function)(source, *(("cpu",) if function == "compile_for" else ()))


def _notation(case: Case) -> None:
    from gspmd.dialect import hlo_notation, notation, rule_notation
    from gspmd.dialect.mesh import Mesh

    text = case.files[0][1].decode("utf-8", "surrogatepass")
    mesh = Mesh((("x", 4), ("y", 2)))
    kind = case.words[0]
    if kind == "hlo_sharding":
        hlo_notation.print_hlo_sharding(hlo_notation.parse_hlo_sharding(text))
    elif kind == "sdy_sharding":
        notation.print_sharding(notation.parse_sharding(text, {"mesh": mesh}))
    elif kind == "mesh":
        notation.print_mesh(notation.parse_mesh(text))
    elif kind == "axes":
        notation.print_axes(notation.parse_axes(text, mesh), mesh)
    else:
        rule_notation.parse_rule(text, [(8, 8)], [(8, 8)])


CALLS: dict[str, Callable[[Case], None]] = {
    "api.partition": _partition,
    "api.propagate": _propagate,
    "api.explain": _explain,
    "api.cost": _cost,
    "api.report": _report,
    "api.suggest": _suggest,
    "api.search": _search,
    "api.check": _check,
    "api.verify": _verify,
    "api.compare": _compare,
    "api.run": _run,
    "api.compile": _compile,
    "api.load": _load,
    "api.passes": _passes,
    "api.mesh": _mesh,
    "api.program": _program,
    "api.notation": _notation,
}
