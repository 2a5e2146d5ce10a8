"""Pipelines of passes: assembling, printing, running, and how they fail."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from jaxlib.mlir import ir

from gspmd.dialect.diagnostic import Diagnostic, Severity
from gspmd.dialect.errors import InternalError, ParseError, Unsupported, UsageError
from gspmd.pass_manager import PassManager
from gspmd.pass_manager.ir_printing import IrPrinting
from gspmd.pass_manager.native_passes import COMMON_PASSES
from gspmd.transforms.ir.operations import Operation, Point
from gspmd.transforms.parsing.diagnostics import remark
from gspmd.transforms.parsing.mlir import located, new_context, parse_module
from gspmd.transforms.passes import Pass, make_pass, option, options_of
from gspmd.transforms.pipeline import PASSES, STAGES, default_pipeline

PROGRAM = """
func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.add %a, %a : tensor<4xf32>
  %1 = stablehlo.add %a, %a : tensor<4xf32>
  %2 = stablehlo.add %0, %1 : tensor<4xf32>
  return %2 : tensor<4xf32>
}
"""


@dataclasses.dataclass(frozen=True)
class Example(Pass):
    argument = "test-example"
    summary = "does one of several things to the first function"

    action: str = option("nothing", "what to do")
    max_rounds: int = option(3, "how often", least=-1)
    strict: bool = option(False, "whether to be")
    ratio: float = option(0.5, "how much")
    axes: tuple[str, ...] = option((), "along which axes")
    budget: int | None = option(None, "how many bytes")

    def run(self, module: Operation) -> None:
        function: Any = module.regions[0].first
        operation = function.regions[0].first
        if self.action == "refuse":
            with located(operation):
                raise Unsupported("is not supported", hint="replicate it")
        if self.action == "break":
            del function.attributes["sym_name"]
        if self.action == "report":
            operation.location.emit_error("is wrong")
        if self.action == "remark":
            remark(operation, "is replicated")
        if self.action == "build":
            Operation("stablehlo.add", [], [], {}, operation.location).insert(Point.at(operation))


@pytest.fixture
def module() -> ir.Module:
    return parse_module(PROGRAM, new_context(), "program.mlir")


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("", "builtin.module()"),
        ("cse", "builtin.module(cse)"),
        ("builtin.module(cse, gspmd-ingest)", "builtin.module(cse,gspmd-ingest)"),
        ("func.func(cse,canonicalize)", "builtin.module(func.func(cse,canonicalize))"),
        ("gspmd-propagate{replicate-unsupported}", "builtin.module(gspmd-propagate{replicate-unsupported=true})"),
        ("gspmd-propagate{replicate-unsupported=false}", "builtin.module(gspmd-propagate)"),
        ("sdy-reshard-to-collectives", "builtin.module(func.func(sdy-reshard-to-collectives))"),
    ],
)
def test_text_of_a_pipeline_reads_back(text: str, printed: str) -> None:
    manager = PassManager.parse(text)
    assert str(manager) == printed
    assert str(PassManager.parse(printed)) == printed


def test_partition_stands_for_all_passes_in_order() -> None:
    names = tuple(declaration.argument for declaration in STAGES)
    stages = "ingest", "propagate", "decide", "reshard", "localize", "optimize", "order", "regather"
    assert names == tuple(f"gspmd-{stage}" for stage in stages)
    assert PassManager.parse("gspmd-partition").names() == names
    assert PassManager(default_pipeline()).names() == names
    text = str(PassManager.parse("gspmd-partition{replicate-unsupported=true}"))
    assert "gspmd-propagate{replicate-unsupported=true}" in text
    with pytest.raises(UsageError, match="'gspmd-partition' has no option 'replicat-unsupported'"):
        PassManager.parse("gspmd-partition{replicat-unsupported=true}")
    with pytest.raises(UsageError, match="has no option 'nonsense'"):
        default_pipeline({"nonsense": 1})


@pytest.mark.parametrize("name", COMMON_PASSES)
def test_every_native_pass_that_help_names_exists(name: str) -> None:
    assert name in PassManager([name]).names() or "pipeline" in name


@pytest.mark.parametrize("declaration", PASSES)
def test_every_pass_is_declared_in_full(declaration: type[Pass]) -> None:
    assert declaration.argument.startswith("gspmd-")
    assert declaration.summary
    assert str(declaration()) == declaration.argument
    assert all(opt.help for opt in options_of(declaration))


def test_options_are_printed_and_read_back() -> None:
    for example in (
        Example(),
        Example(action="", max_rounds=-1, strict=True, ratio=0.25, axes=("x", "y"), budget=0),
        Example(action="two words {", axes=("x",), budget=None),
    ):
        text = str(example)
        options = text.removeprefix("test-example").removeprefix("{").removesuffix("}")
        from gspmd.pass_manager.pipeline_text import parse_option_texts, parse_pipeline

        assert make_pass(Example, parse_option_texts(options)) == example
        assert [str(element) for element in parse_pipeline(text)] == [text]


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("max-rounds", "many", "option 'max-rounds' of pass 'test-example' has value 'many'; give a value of type int"),
        ("strict", "perhaps", "option 'strict' of pass 'test-example' has value 'perhaps'; give a value of type bool"),
        ("max-round", "1", "pass 'test-example' has no option 'max-round'; did you mean 'max-rounds'?"),
    ],
)
def test_wrong_options_say_what_is_right(name: str, value: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        make_pass(Example, [(name, value)])
    assert str(caught.value) == f"gspmd: error: {message}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gspmd-propagat", "unknown pass 'gspmd-propagat'; did you mean 'gspmd-propagate'"),
        ("func.func(csee)", "unknown pass 'csee'; did you mean 'cse'?"),
        ("qqqqqq", "unknown pass 'qqqqqq'; see gspmd-opt --list-passes"),
        ("cse{a=3}", "pass 'cse' has no option 'a'; it has no options"),
        ("canonicalize{top-dow=true}", "pass 'canonicalize' has no option 'top-dow'; did you mean 'top-down'?"),
        ("func.func(gspmd-ingest)", "pass 'gspmd-ingest' runs on a module, not in 'func.func'"),
        ("func.func(gspmd-partition)", "pass 'gspmd-partition' runs on a module, not in 'func.func'"),
    ],
)
def test_wrong_pipelines_say_what_is_right(text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        PassManager.parse(text)
    assert str(caught.value).startswith(f"gspmd: error: {message}")


def test_wrong_native_options_write_nothing_to_stderr(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UsageError, match="'canonicalize' does not take the options 'max-iterations=x'"):
        PassManager.parse("canonicalize{max-iterations=x}")
    assert capfd.readouterr().err == ""


def test_native_passes_and_ours_run_in_order(module: ir.Module) -> None:
    said: list[str] = []
    PassManager(["cse", Example("remark"), "canonicalize"]).run(module, lambda d: said.append(d.message))
    assert str(module).count("stablehlo.add") == 2
    assert said == ["'stablehlo.add' op is replicated"]


def test_a_refusal_is_raised_and_reported_with_its_place(module: ir.Module) -> None:
    said: list[Diagnostic] = []
    with pytest.raises(Unsupported) as caught:
        PassManager([Example("refuse"), "cse"]).run(module, said.append)
    assert str(caught.value) == "-:3:8: error: 'stablehlo.add' op is not supported; replicate it"
    (diagnostic,) = said
    assert diagnostic.severity is Severity.ERROR
    assert str(diagnostic) == str(caught.value)
    assert str(module).count("stablehlo.add") == 3  # what follows has not run


def test_an_error_emitted_in_a_pass_fails_it(module: ir.Module, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(Unsupported, match=r"is wrong") as caught:
        PassManager([Example("report")]).run(module)
    assert str(caught.value) == "-:3:8: error: is wrong"
    assert capfd.readouterr().err == ""


def test_a_native_pass_that_fails_is_an_error_with_a_place() -> None:
    text = "func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {\n  cf.br ^end\n^end:\n  return %a : tensor<4xf32>\n}"
    module = parse_module(text, new_context())
    with pytest.raises(Unsupported) as caught:
        PassManager(["stablehlo-refine-shapes"]).run(module)
    assert str(caught.value) == "-:1:1: error: 'func.func' op must have exactly one block"


@pytest.mark.parametrize("action", ["break", "build"])
def test_a_pass_that_makes_an_invalid_module_is_our_defect(module: ir.Module, action: str) -> None:
    with pytest.raises(InternalError, match=r"test-example\{action=(break|build)\}") as caught:
        PassManager([Example(action)]).run(module)
    assert caught.value.hint == "please report this"


def test_an_exception_in_a_pass_comes_out_unchanged(module: ir.Module) -> None:
    class Defect(Example):
        def run(self, module: Operation) -> None:
            raise ZeroDivisionError("x")

    with pytest.raises(ZeroDivisionError) as caught:
        PassManager([Defect()]).run(module)
    assert caught.value.__notes__ == ["in pass 'test-example'"]


def test_remarks_go_to_stderr_by_default(module: ir.Module, capfd: pytest.CaptureFixture[str]) -> None:
    PassManager([Example("remark")]).run(module)
    assert capfd.readouterr().err == "-:3:8: remark: 'stablehlo.add' op is replicated\n"


def test_printing_around_a_pass_that_does_not_run_is_refused(module: ir.Module) -> None:
    manager = PassManager(["cse"], printing=IrPrinting(before=("canonicalize",)))
    with pytest.raises(UsageError, match="cannot print around pass 'canonicalize'"):
        manager.run(module)


def test_a_manager_runs_on_many_modules() -> None:
    manager = PassManager(["cse"])
    for _ in range(2):
        module = parse_module(PROGRAM, new_context())
        manager.run(module)
        assert str(module).count("stablehlo.add") == 2


def test_parse_errors_name_the_file() -> None:
    with pytest.raises(ParseError) as caught:
        parse_module("func.func @main() {\n  retur\n}", new_context(), "program.mlir")
    assert str(caught.value).startswith("program.mlir:2:3: error: custom op 'retur' is unknown")
