"""What can be decorated, and which locks a call of it takes.

Their names, from the call's arguments.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, contextmanager
from inspect import Parameter
from types import AsyncGeneratorType, GeneratorType
from typing import Any, Final

from asgiref.sync import iscoroutinefunction

from redis_locks.values.keys import validate_name, validate_names
from redis_locks.values.name_templates import Field, NameTemplate, parse

Names = tuple[str, ...]

Renderer = Callable[[tuple[object, ...], Mapping[str, object]], str]
"""Gives a lock name for the positional and keyword arguments of one call."""

NamesRenderer = Callable[[tuple[object, ...], Mapping[str, object]], Names]
"""Gives the names of all locks of one call, valid and each once."""


def for_calls_of(function: Callable[..., object], *sources: object) -> NamesRenderer:
    """How to name the locks of a call of ``function``.

    Args:
        function: What will be called.
        *sources: Templates over its parameters; or one callable that gets the call's arguments
            and returns the name or names; or one None for the function's module and
            qualified name.

    Raises:
        TypeError: ``name`` is none of these.
        ValueError: The template is wrong, or names a parameter that there is not.
    """
    name = sources[0]
    if name is None:
        fixed = (validate_name(_own_name_of_lock(function)),)
        return lambda args, kwargs: fixed  # noqa: ARG005 - a NamesRenderer
    templates = [source for source in sources if isinstance(source, str)]
    if len(templates) == len(sources):
        renderers = [_template_renderer(function, parse(template)) for template in templates]
        if len(renderers) == 1:
            (only,) = renderers
            return lambda args, kwargs: (only(args, kwargs),)
        return lambda args, kwargs: validate_names([render(args, kwargs) for render in renderers])
    if callable(name) and not isinstance(name, type) and not iscoroutinefunction(name):
        return functools.partial(_called, name)
    raise _no_name(name)


def one_name_of(what: str, function: Callable[..., object], source: object) -> Renderer:
    """Return how to name the only lock of a call of `function`, or of `what` it is.

    Raises as `for_calls_of`.
    """
    names_of = for_calls_of(function, source)

    def name_of(args: tuple[object, ...], kwargs: Mapping[str, object]) -> str:
        names = names_of(args, kwargs)
        if len(names) > 1:
            msg = (
                f"{what} has one name; what the name callable returned has {len(names)}: {names!r}"
            )
            raise ValueError(msg)
        return names[0]

    return name_of


def keywords_of(function: Callable[..., object], *sources: object) -> frozenset[str]:
    """Return the fields of templates that are no parameter of `function`, which takes any keyword.

    Raises:
        ValueError: It does not take any keyword, so no call can give such a field.
    """
    signature = signature_of(function)
    names: set[str] = set()
    for source in sources:
        if not isinstance(source, str):
            continue
        template = parse(source)
        for field in template.fields:
            parameter = signature.parameters.get(field.root)
            if parameter is None or parameter.kind in _VARIADIC:
                _getter(signature, template, field)
                names.add(field.root)
    return frozenset(names)


def _called(
    name: Callable[..., object], args: tuple[object, ...], kwargs: Mapping[str, object]
) -> Names:
    returned = name(*args, **kwargs)
    if isinstance(returned, list | tuple):
        return validate_names(returned)
    return (validate_name(returned, argument="what the name callable returned"),)


def own_name(function: Callable[..., object]) -> str | None:
    """Return the module and the qualified name of a function; None if it has no name."""
    qualname = getattr(function, "__qualname__", None)
    return f"{function.__module__}.{qualname}" if qualname else None


def _own_name_of_lock(function: Callable[..., object]) -> str:
    name = own_name(function)
    if name is None or "<lambda>" in name:
        msg = f"{function!r} has no name of its own; give redis_lock a name"
        raise ValueError(msg)
    return name


def check_function(function: object, decorator: str, *, of_class: str, of_generator: str) -> None:
    """Raise TypeError unless a decorator of this name can decorate `function`.

    Args:
        function: What stands below the decorator.
        decorator: Its name.
        of_class: What to do with a class.
        of_generator: What would happen before a generator function returns its first item.
    """
    if inspect.isclass(function):
        what, advice = f"the class {function.__name__}", of_class
    elif isinstance(function, (classmethod, staticmethod)):
        kind = type(function).__name__
        what, advice = f"a {kind}", f"write @{kind} above @{decorator}(...)"
    elif not callable(function):
        what, advice = f"{function!r}", f"it is not a function ({_bare(decorator)})"
    elif inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        what = f"the generator function {function!r}"
        advice = f"{of_generator} before the first item: use a `with {decorator}(...)` block inside"
    else:
        return
    msg = f"{decorator} cannot decorate {what}: {advice}"
    raise TypeError(msg)


async def _nothing() -> AsyncIterator[None]:
    yield


RUNS_LATER: Final = (
    *(GeneratorType, AsyncGeneratorType),
    *(type(contextmanager(lambda: iter(()))()), type(asynccontextmanager(_nothing)())),
)
"""What a call of a generator function returns, or of one that is made a context manager."""


def refuse_generator(result: object, function: object, decorator: str) -> None:
    """Raise TypeError if `function` returned a generator, or a context manager made of one."""
    if isinstance(result, RUNS_LATER):
        msg = (
            f"{decorator}: {function!r} returned a generator, whose code runs after the call. "
            f"Use a `with {decorator}(...)` block inside the generator"
        )
        raise TypeError(msg)


def refuse_awaitable(result: object, function: object, decorator: str) -> None:
    """Raise TypeError if `function`, which is called and not awaited, returned an awaitable."""
    if inspect.isawaitable(result):
        getattr(result, "close", lambda: None)()
        msg = (
            f"{decorator}: {function!r} returned an awaitable, whose code runs after the call. "
            f"Write {decorator} next to `async def`"
        )
        raise TypeError(msg)


def check_name(name: object, decorator: str) -> None:
    """Raise unless `name` may name what a decorator of this name makes of one function.

    Raises:
        TypeError: It is no name, or stands below the decorator, which lacks its parentheses.
        ValueError: It is a string that cannot be a name.
    """
    refuse_bare(name, decorator)
    if isinstance(name, str):
        validate_name(name)
    elif name is not None and not callable(name):
        raise _no_name(name)


def _no_name(name: object) -> TypeError:
    return TypeError(
        "name must be a template such as 'account:{account_id}', a plain callable that returns the "
        f"name, or None, not {name!r}"
    )


def refuse_bare(name: object, decorator: str) -> None:
    """Raise TypeError if `name` is what a decorator without parentheses stands above.

    The decorator has this name.
    """
    if inspect.isclass(name) or iscoroutinefunction(name) or _is_being_defined(name):
        raise TypeError(_bare(decorator))


def _bare(decorator: str) -> str:
    return f"@{decorator} needs parentheses: write @{decorator}() or @{decorator}('name')"


def _is_being_defined(function: object) -> bool:
    """Whether a frame that calls us is defining `function`, and has no name for it yet.

    So it stands below a decorator without parentheses. A function that is passed as an argument has
    a name there.
    """
    inner: object = inspect.unwrap(function) if callable(function) else function
    if isinstance(inner, (classmethod, staticmethod)):
        return True
    if not inspect.isfunction(inner) or inner.__name__ == "<lambda>":
        return False
    code = inner.__code__
    frame = inspect.currentframe()
    while frame is not None and not any(each is code for each in frame.f_code.co_consts):
        frame = frame.f_back
    last_line = max(line or 0 for _, _, line in code.co_lines())
    if frame is None or not code.co_firstlineno <= frame.f_lineno <= last_line:
        return False
    return not any(each is function or each is inner for each in frame.f_locals.values())


def is_async(function: Callable[..., object]) -> bool:
    """Whether a call of `function` is to be awaited.

    It may be an object with a method `__call__`.
    """
    return iscoroutinefunction(function) or iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - the method, not whether there is one
    )


def with_signature(
    decorated: Callable[..., Any], function: Callable[..., object]
) -> Callable[..., Any]:
    """Return `decorated`, which stands for `function`, with the signature of that."""
    # Celery and others read the attribute; they do not follow __wrapped__.
    decorated.__signature__ = signature_of(function)  # type: ignore[attr-defined]
    return decorated


def signature_of(function: Callable[..., object]) -> inspect.Signature:
    """The signature by which ``function`` is called.

    A partial that method_decorator makes carries the unbound method as ``__wrapped__``,
    whose ``self`` is already given; so nothing is followed from a partial.
    """
    try:
        return inspect.signature(
            function, follow_wrapped=not isinstance(function, functools.partial)
        )
    except (TypeError, ValueError):  # something in C without a signature
        anything = [Parameter("args", Parameter.VAR_POSITIONAL)]
        return inspect.Signature([*anything, Parameter("kwargs", Parameter.VAR_KEYWORD)])


def _template_renderer(function: Callable[..., object], template: NameTemplate) -> Renderer:
    if not template.fields:
        fixed = template.render(lambda root: root)
        return lambda args, kwargs: fixed  # noqa: ARG005 - a Renderer
    signature = signature_of(function)
    parts: list[tuple[Any, Callable[..., object] | None]] = [
        (part, None if isinstance(part, str) else _getter(signature, template, part))
        for part in template.parts
    ]

    def render(args: tuple[object, ...], kwargs: Mapping[str, object]) -> str:
        texts = [part if get is None else part.value_in(get(args, kwargs)) for part, get in parts]
        return validate_name("".join(texts))

    return render


def _getter(
    signature: inspect.Signature, template: NameTemplate, field: Field
) -> Callable[[tuple[object, ...], Mapping[str, object]], object]:
    """How to find a field's argument in a call, without binding the whole signature."""
    root, parameters = field.root, signature.parameters
    parameter = parameters.get(root)
    named = [each.name for each in parameters.values() if each.kind not in _VARIADIC]
    takes_any = any(each.kind is Parameter.VAR_KEYWORD for each in parameters.values())
    if root not in named and (parameter is not None or not takes_any):
        there_are = f"there are: {', '.join(named)}" if named else "it has none"
        msg = (
            f"lock name {template.text!r}: the field {{{field.text}}} is not a parameter of the "
            f"function ({there_are})"
        )
        raise ValueError(msg)
    positional = [each.name for each in parameters.values() if each.kind in _POSITIONAL]
    position = positional.index(root) if root in positional else None
    by_keyword = parameter is None or parameter.kind is not Parameter.POSITIONAL_ONLY
    default = Parameter.empty if parameter is None else parameter.default

    def get(args: tuple[object, ...], kwargs: Mapping[str, object]) -> object:
        if position is not None and position < len(args):
            return args[position]
        if by_keyword and root in kwargs:
            return kwargs[root]
        if default is not Parameter.empty:
            return default
        # Most likely the call itself is wrong: then Python's own words are best.
        signature.bind(*args, **kwargs)
        msg = f"lock name {template.text!r}: the call gives no argument named {root!r}"
        raise ValueError(msg)

    return get


_VARIADIC = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
_POSITIONAL = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
