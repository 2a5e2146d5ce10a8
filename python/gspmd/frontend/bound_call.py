"""The arguments of one call of a jitted function: the static ones, and the leaves of the others."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import jax

from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import shown
from gspmd.frontend.argument_kinds import description_of
from gspmd.runtime.familiar_errors import WrongType, WrongValue


@dataclasses.dataclass(frozen=True)
class Parameters:
    """The static and donated arguments of a function, each by position and by name."""

    static_argnums: tuple[int, ...]
    static_argnames: tuple[str, ...]
    donate_argnums: tuple[int, ...]
    donate_argnames: tuple[str, ...]
    signature: inspect.Signature | None

    @staticmethod
    def of(fun: Callable[..., Any], static: Any, static_names: Any, donated: Any, donated_names: Any) -> Parameters:
        """Errors: UsageError for unknown names or positions, and for an argument that is both static and donated."""
        try:
            signature = inspect.signature(fun)
        except (TypeError, ValueError):
            signature = None
        known = None if signature is None else list(signature.parameters.values())
        given = (_both("static", static, static_names, known), _both("donate", donated, donated_names, known))
        for both in ({*given[0][0]} & {*given[1][0]}, {*given[0][1]} & {*given[1][1]}):
            for argument in both:
                raise WrongValue(f"argument {shown(argument)} is static and donated", hint="only arrays can be donated")
        return Parameters(*given[0], *given[1], signature)

    @property
    def as_of_jax(self) -> dict[str, Any]:
        """The arguments of `jax.jit`, which takes no empty ones for a function without a signature."""
        names = ("static_argnums", "static_argnames", "donate_argnums", "donate_argnames")
        given = {name: getattr(self, name) for name in names}
        return {name: value if value or self.signature is not None else None for name, value in given.items()}

    def check(self, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Raise UsageError for a call that does not match the function's signature."""
        if self.signature is not None:
            try:
                self.signature.bind(*args, **kwargs)
            except TypeError as error:
                raise WrongType(f"'{name}' cannot take this call: {error}", hint=f"it takes {self.signature}") from None

    def name_of(self, position: int) -> str | None:
        """The name of the parameter at a position."""
        names = [] if self.signature is None else list(self.signature.parameters.values())
        return names[position].name if position < len(names) and names[position].kind in _POSITIONAL else None


_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def _both(
    what: str, numbers: Any, names: Any, parameters: list[inspect.Parameter] | None
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Positions and names; if one of these is not given, it follows from the other by the function's signature."""
    found, named = _numbers(what, numbers), _names(what, names)
    if parameters is None:
        return found, named
    positional = [p.name for p in parameters if p.kind in _POSITIONAL]
    only = {p.name for p in parameters if p.kind is inspect.Parameter.POSITIONAL_ONLY}
    kinds = {p.kind for p in parameters}
    if inspect.Parameter.VAR_POSITIONAL not in kinds:
        for number in found:
            if not -len(positional) <= number < len(positional):
                raise WrongValue(
                    f"{what}_argnums has {number}, but the function takes {len(positional)} by position",
                    code=Code.BAD_VALUE,
                )
        found = tuple(n % len(positional) for n in found)
    known = {p.name for p in parameters} - only
    for name in named:
        if name not in known and inspect.Parameter.VAR_KEYWORD not in kinds:
            raise WrongValue(
                f"{what}_argnames has '{name}', which the function does not take by name", code=Code.BAD_VALUE
            )
    if names is None:
        named = tuple(positional[n] for n in found if 0 <= n < len(positional) and positional[n] not in only)
    elif numbers is None:
        found = tuple(positional.index(name) for name in named if name in positional)
    return tuple(dict.fromkeys(found)), tuple(dict.fromkeys(named))


def _numbers(what: str, given: Any) -> tuple[int, ...]:
    if given is None:
        return ()
    several = given if isinstance(given, Sequence) and not isinstance(given, str) else (given,)
    if not all(hasattr(number, "__index__") for number in several):
        raise WrongType(f"{what}_argnums is {shown(given)}, expected a number or several", code=Code.BAD_VALUE)
    return tuple(number.__index__() for number in several)


def _names(what: str, given: Any) -> tuple[str, ...]:
    if given is None:
        return ()
    several = tuple(given) if isinstance(given, Iterable) and not isinstance(given, str) else (given,)
    if not all(isinstance(name, str) for name in several):
        raise WrongType(f"{what}_argnames is {shown(given)}, expected a name or several", code=Code.BAD_VALUE)
    return several


@dataclasses.dataclass(frozen=True, slots=True)
class BoundCall:
    """Arguments as given, and the leaves of those that are not static, in JAX's order."""

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    static_argnums: frozenset[int]
    dynamic_kwargs: Mapping[str, Any]
    leaves: list[Any]
    tree: Any

    @property
    def key(self) -> Any:
        """What of the call, besides the leaves, the program depends on."""
        if not self.static_argnums and len(self.dynamic_kwargs) == len(self.kwargs):
            return self.tree
        statics = tuple((i, self.args[i]) for i in sorted(self.static_argnums))
        named = tuple((name, v) for name, v in sorted(self.kwargs.items()) if name not in self.dynamic_kwargs)
        return self.tree, statics, named, tuple(type(value) for _, value in statics + named)

    def with_leaves(self, leaves: Sequence[Any]) -> tuple[list[Any], dict[str, Any]]:
        """Arguments by position and by name with others in place of the leaves."""
        dynamic, named = jax.tree.unflatten(self.tree, leaves)
        rest = iter(dynamic)
        args = [arg if i in self.static_argnums else next(rest) for i, arg in enumerate(self.args)]
        return args, {**self.kwargs, **named}

    def described(self) -> BoundCall:
        """The same call with shapes in place of arrays, which are not kept then."""
        leaves = [description_of(leaf) for leaf in self.leaves]
        args, kwargs = self.with_leaves(leaves)
        dynamic = {name: kwargs[name] for name in self.dynamic_kwargs}
        return dataclasses.replace(self, args=tuple(args), kwargs=kwargs, dynamic_kwargs=dynamic, leaves=leaves)

    def donated(self, parameters: Parameters) -> list[bool]:
        """For every leaf, whether its argument is donated."""
        positions = [i for i in range(len(self.args)) if i not in self.static_argnums]
        by_position = [
            i in parameters.donate_argnums or i - len(self.args) in parameters.donate_argnums for i in positions
        ]
        numbered = jax.tree.unflatten(self.tree, range(self.tree.num_leaves))
        return [
            by_position[path[1].idx] if path[0].idx == 0 else path[1].key in parameters.donate_argnames
            for path, _ in jax.tree_util.tree_flatten_with_path(numbered)[0]
        ]

    def paths(self, parameters: Parameters) -> list[str]:
        """The names of the leaves in errors: `state['params']['w']`."""
        positions = [i for i in range(len(self.args)) if i not in self.static_argnums]
        numbered = jax.tree.unflatten(self.tree, range(self.tree.num_leaves))
        found = []
        for path, _ in jax.tree_util.tree_flatten_with_path(numbered)[0]:
            by_position = path[0].idx == 0
            position = positions[path[1].idx] if by_position else -1
            name = (parameters.name_of(position) or f"args[{position}]") if by_position else path[1].key
            found.append(f"{name}{jax.tree_util.keystr(path[2:])}")
        return found


def bind(parameters: Parameters, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> BoundCall:
    """Errors: UsageError for a static argument that cannot be hashed."""
    if not parameters.static_argnums and not parameters.static_argnames:
        leaves, tree = jax.tree.flatten((args, dict(kwargs)))
        return BoundCall(args, kwargs, frozenset(), kwargs, leaves, tree)
    static = frozenset(n % len(args) for n in parameters.static_argnums if -len(args) <= n < len(args))
    named = {name: value for name, value in kwargs.items() if name not in parameters.static_argnames}
    for what, value in (
        *((f"'{parameters.name_of(i) or i}'", args[i]) for i in sorted(static)),
        *((f"'{name}'", value) for name, value in kwargs.items() if name not in named),
    ):
        _check_hashable(what, value)
    dynamic = tuple(arg for i, arg in enumerate(args) if i not in static)
    leaves, tree = jax.tree.flatten((dynamic, named))
    return BoundCall(args, kwargs, static, named, leaves, tree)


def _check_hashable(what: str, value: Any) -> None:
    try:
        hash(value)
    except TypeError:
        raise WrongValue(
            f"static argument {what} is of type {type(value).__name__}, which cannot be hashed",
            hint="pass a tuple or a frozen value",
        ) from None
