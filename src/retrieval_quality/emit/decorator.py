"""A search function whose calls are logged: arguments by name, the result, time and errors."""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, fields
from functools import wraps
from typing import Any, Final, ParamSpec, TypeVar, cast

from retrieval_quality.emit.calls import CALL_COLUMNS, RetrievalCall, Versions

P = ParamSpec("P")
R = TypeVar("R")

_VERSIONS: Final = frozenset(column.name for column in fields(Versions))
_MEASURED: Final = frozenset({"ts", "error", "retrieval_latency_ms", "rerank_latency_ms"})
_COLUMNS: Final = frozenset(CALL_COLUMNS) - _MEASURED


@dataclass(frozen=True)
class _Argument:
    """Where a column is found among the arguments of a call. `position`: None for keyword-only."""

    column: str
    name: str
    position: int | None
    default: object


def traced(
    function: Callable[P, R],
    make_call: Callable[[], RetrievalCall],
    running: ContextVar[RetrievalCall | None],
    arguments: Mapping[str, str],
    result: Callable[[Any], Iterable[Any]] | None,
) -> Callable[P, R]:
    """`function`, logged. `arguments`: column by parameter name, beyond equal names. `result`: from
    what is returned to the final list. Raises TypeError for a generator and for names that are none.
    """
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(f"{function.__name__} is a generator; log it with `with logger.retrieval(...)`")
    captured = _captured(function, arguments)

    def started(args: Sequence[object], kwargs: Mapping[str, object]) -> RetrievalCall:
        call = make_call()
        _fill(call, captured, args, kwargs)
        return call

    def finished(call: RetrievalCall, returned: Any) -> None:
        if call.retrieved_places is None and call.misread is None and call.error is None:
            call.retrieved_by(lambda: returned if result is None else result(returned))

    if inspect.iscoroutinefunction(function):

        @wraps(function)
        async def traced_async(*args: P.args, **kwargs: P.kwargs) -> Any:
            with started(args, kwargs) as call:
                token = running.set(call)
                try:
                    returned = await function(*args, **kwargs)
                finally:
                    running.reset(token)
                finished(call, returned)
            return returned

        return cast("Callable[P, R]", traced_async)

    @wraps(function)
    def traced_sync(*args: P.args, **kwargs: P.kwargs) -> R:
        with started(args, kwargs) as call:
            token = running.set(call)
            try:
                returned = function(*args, **kwargs)
            finally:
                running.reset(token)
            finished(call, returned)
        return returned

    return traced_sync


def _captured(function: Callable[..., object], arguments: Mapping[str, str]) -> tuple[_Argument, ...]:
    parameters = inspect.signature(function).parameters
    if unknown := sorted(set(arguments) - set(parameters)):
        raise TypeError(f"{function.__name__} has no parameter {', '.join(unknown)}")
    if unknown := sorted(set(arguments.values()) - _COLUMNS - _VERSIONS):
        raise TypeError(f"no column {', '.join(unknown)}; known: {', '.join(sorted(_COLUMNS | _VERSIONS))}")
    found = []
    for position, (name, parameter) in enumerate(parameters.items()):
        column = arguments.get(name, name)
        if column in _COLUMNS | _VERSIONS and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            is_positional = parameter.kind is not parameter.KEYWORD_ONLY
            default = None if parameter.default is parameter.empty else parameter.default
            found.append(_Argument(column, name, position if is_positional else None, default))
    return tuple(found)


def _fill(
    call: RetrievalCall, captured: Sequence[_Argument], args: Sequence[object], kwargs: Mapping[str, object]
) -> None:
    told: dict[str, Any] = {}
    for argument in captured:
        if argument.position is not None and argument.position < len(args):
            value = args[argument.position]
        else:
            value = kwargs.get(argument.name, argument.default)
        if value is None:
            continue
        if argument.column in _VERSIONS:
            told[argument.column] = value
        else:
            setattr(call, argument.column, value)
    if told:
        call.versions = Versions(**told)
