"""Writes docs/reference/sdk.md from the front doors of the SDK: names, signatures, types, docstrings and examples.

A front door is a module of `bollard.sdk` with an `__all__`. Signatures are the text of the source. An example is a file
`examples/sdk/NAME.py`, as in `runner.py`, or `RunApi_models.py` for a family of the run API. `scripts/describe` calls
this module. A public name without a docstring fails it.
"""

import ast
import importlib
import inspect
import pkgutil
import re
import textwrap
from collections.abc import Iterator
from functools import cache, cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

import bollard.sdk
from bollard.protocol import Shape, limits
from bollard.protocol.export import SHAPES

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "examples/sdk"
WIDTH = 110
HEAD = """\
# Python SDK

`scripts/describe` writes this page from the code. It lists every public name with its signature, its types and what it
does. [Write a runner](../guides/first-runner.md) is the place to begin. [The run API](run-api.md) explains the calls of
a runner and their permissions. A test runs every example.

Everything else in the package may change without notice. Methods that return many items take `limit`, the most items to
return. `top_k`, its old name in three calls, is still accepted.
"""
SHAPES_HEAD = """\
## Shapes of the protocol

Values that the methods above take and return, as pydantic models. A field with `= …` is optional. The
[schemas](schema/) have the limits of each field.
"""
LEADING = ("runner", "RunContext", "RunApi", "tool", "ToolContext", "Form", "MemoryHost")
"""What a reader needs first; the other names follow, functions before classes."""
OUTSIDE = {"JsonValue": ("pydantic.JsonValue", "Any JSON value.")}
"""Names that another package defines."""


def doors() -> list[ModuleType]:
    """`bollard.sdk`, then each of its modules with a front door of its own."""
    found = [bollard.sdk]
    for each in pkgutil.iter_modules(bollard.sdk.__path__, "bollard.sdk."):
        module = importlib.import_module(each.name)
        if "__all__" in vars(module):
            found.append(module)
    return found


# --- the source ---


@cache
def tree_of(file: str) -> ast.Module:
    return ast.parse(Path(file).read_text(encoding="utf-8"))


def node_of(thing: Any) -> Any:
    """The definition of a class or function in the source."""
    file = inspect.getsourcefile(inspect.unwrap(thing))
    body: Any = tree_of(file or "").body
    node: Any = None
    for name in thing.__qualname__.split("."):
        node = next(each for each in body if getattr(each, "name", None) == name)
        body = node.body
    return node


def alias_of(name: str, door: ModuleType) -> tuple[str, str]:
    """The value and the docstring of a name that is neither a class nor a function."""
    if name in OUTSIDE:
        return OUTSIDE[name]
    for source in (*Path(door.__file__ or "").parent.glob("*.py"), *(ROOT / "src/bollard/protocol").glob("*.py")):
        body = tree_of(str(source)).body
        for node, after in zip(body, [*body[1:], None], strict=True):
            assigned = isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None
            target = (node.targets[0] if isinstance(node, ast.Assign) else node.target) if assigned else None
            if isinstance(target, ast.Name) and target.id == name:
                text = (
                    after.value.value if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) else ""
                )
                return ast.unparse(node.value), documented(name, str(text))
    raise SystemExit(f"{name} of {door.__name__} is not found in the source")


def documented(name: str, text: str | None) -> str:
    if not text:
        raise SystemExit(f"{name} has no docstring\nhint: public names of bollard.sdk have one")
    return inspect.cleandoc(text)


def signature(called: str, node: Any, *, bound: bool) -> str:
    """A call with its parameters and what it returns, over several lines where it is long."""
    arguments = node.args
    if bound:
        arguments = ast.arguments(**{**vars(arguments), "args": arguments.args[1:]})
    returns = "" if node.returns is None else f" -> {ast.unparse(node.returns)}"
    prefix = prefix_of(node)
    shown = list(parameters(arguments))
    whole = f"{prefix}{called}({', '.join(shown)}){returns}"
    if len(whole) <= WIDTH:
        return whole
    parts = "".join(f"    {each},\n" for each in shown)
    return f"{prefix}{called}(\n{parts}){returns}"


def prefix_of(node: Any) -> str:
    """How a call is used: awaited, entered, or as it is."""
    if any(ast.unparse(each) == "asynccontextmanager" for each in node.decorator_list):
        return "async with "
    yields = node.returns is not None and ast.unparse(node.returns).startswith(("AsyncGenerator[", "AsyncIterator["))
    return "await " if isinstance(node, ast.AsyncFunctionDef) and not yields else ""


def value_of(default: ast.expr) -> str:
    """A default as it is written; the number of a limit instead of its name."""
    text = ast.unparse(default)
    return str(getattr(limits, text.removeprefix("limits."))) if text.startswith("limits.") else text


def parameters(arguments: ast.arguments) -> Iterator[str]:
    """Each parameter with its type and default."""
    plain = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(plain) - len(arguments.defaults)) + list(arguments.defaults)
    for each, default in zip(plain, defaults, strict=True):
        yield ast.unparse(each) + (f" = {value_of(default)}" if default is not None else "")
    if arguments.vararg is not None:
        yield "*" + ast.unparse(arguments.vararg)
    elif arguments.kwonlyargs:
        yield "*"
    for each, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        yield ast.unparse(each) + (f" = {value_of(default)}" if default is not None else "")
    if arguments.kwarg is not None:
        yield "**" + ast.unparse(arguments.kwarg)


# --- the page ---


def indented(text: str) -> str:
    return textwrap.indent(text, "    ")


def bullet(code: str, text: str) -> str:
    """A member: its code, and the first paragraph of its docstring."""
    said = " ".join(text.split("\n\n")[0].split())
    is_long = "\n" in code
    name = code.partition("(")[0].removeprefix("await ").removeprefix("async with ") if is_long else code
    line = f"- `{name}`" + (f": {said}" if said else "")
    shown = textwrap.fill(line, 120, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
    return f"{shown}\n\n{textwrap.indent(code, '      ')}\n" if is_long else shown


def function_part(name: str, thing: Any) -> str:
    return f"{indented(signature(name, node_of(thing), bound=False))}\n\n{documented(name, thing.__doc__)}\n"


def class_part(name: str, thing: Any) -> str:
    node = node_of(thing)
    made = next((each for each in node.body if isinstance(each, ast.FunctionDef) and each.name == "__init__"), None)
    parts = [documented(name, inspect.getdoc(thing)) + "\n"]
    if made is not None and not issubclass(thing, bollard.sdk.SdkError):
        parts.insert(0, indented(signature(name, ast_without_result(made), bound=True)) + "\n")
    members = [*fields_of(node, thing), *methods_of(name, thing)]
    if members:
        parts.append("\n".join(members).rstrip() + "\n")
    return "\n".join(parts)


def ast_without_result(node: ast.FunctionDef) -> ast.FunctionDef:
    return ast.FunctionDef(**{**vars(node), "returns": None})


def fields_of(node: ast.ClassDef, thing: Any) -> Iterator[str]:
    """The annotated attributes of a class, with the text below them or of their description."""
    described = getattr(thing, "model_fields", {})
    for field, after in zip(node.body, [*node.body[1:], None], strict=True):
        if not isinstance(field, ast.AnnAssign) or not isinstance(field.target, ast.Name):
            continue
        name = field.target.id
        if name.startswith("_") or name == "model_config":
            continue
        text = after.value.value if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) else ""
        if name in described:
            text = described[name].description or ""
        optional = "" if field.value is None or (name in described and described[name].is_required()) else " = …"
        yield bullet(f"{name}: {ast.unparse(field.annotation)}{optional}", str(text))


def methods_of(owner: str, thing: Any) -> Iterator[str]:
    """The public methods and properties of a class, in the order of the source."""
    for name, member in vars(thing).items():
        raw = member.__func__ if isinstance(member, classmethod | staticmethod) else member
        if name.startswith("_") or isinstance(raw, cached_property):
            continue
        if isinstance(raw, property):
            getter: Any = raw.fget
            returns = ast.unparse(node_of(getter).returns)
            yield bullet(f"{name}: {returns}", documented(f"{owner}.{name}", raw.__doc__))
        elif inspect.isfunction(raw) and raw.__qualname__.endswith(f"{thing.__name__}.{name}"):
            called = f"{owner}.{name}" if isinstance(member, classmethod | staticmethod) else name
            bound = not isinstance(member, staticmethod)
            text = documented(f"{owner}.{name}", inspect.getdoc(raw))
            yield bullet(signature(called, node_of(raw), bound=bound), text)


def families_of(name: str, thing: Any) -> Iterator[str]:
    """The families of the run API: `ctx.api.models` and the others, with areas such as `ctx.api.storage.plugin`."""
    api = thing(None)
    for family, member in vars(thing).items():
        if not isinstance(member, cached_property):
            continue
        value = getattr(api, family)
        text = documented(f"{name}.{family}", inspect.getdoc(type(value)))
        yield f"#### `ctx.api.{family}`\n\n{text}\n"
        areas = [area for area in getattr(type(value), "__slots__", ()) if hasattr(getattr(value, area), "list")]
        kind = type(getattr(value, areas[0])) if areas else type(value)
        places = " and ".join(f"`ctx.api.{family}.{area}`" for area in areas)
        yield (f"{places} have these methods:\n\n" if places else "") + "\n".join(methods_of(family, kind)) + "\n"
        yield from example(f"{name}_{family}")


def example(name: str) -> Iterator[str]:
    file = EXAMPLES / f"{name}.py"
    if file.is_file():
        yield f"```python\n{file.read_text(encoding='utf-8').strip()}\n```\n"


def part(name: str, thing: Any) -> Iterator[str]:
    yield f"### `{name}`\n"
    yield class_part(name, thing) if inspect.isclass(thing) else function_part(name, thing)
    yield from example(name)
    if thing is bollard.sdk.RunApi:
        yield from families_of(name, thing)


def is_shape(thing: Any) -> bool:
    return inspect.isclass(thing) and issubclass(thing, Shape)


def door_page(door: ModuleType) -> Iterator[str]:
    yield f"## `{door.__name__}`\n"
    yield documented(door.__name__, door.__doc__).split("\n\n")[0] + "\n"
    yield from example(door.__name__)
    exported = {name: getattr(door, name) for name in door.__all__}
    classes = {name: each for name, each in exported.items() if inspect.isclass(each) and not is_shape(each)}
    errors = {name: each for name, each in classes.items() if issubclass(each, BaseException)}
    functions = {name: each for name, each in exported.items() if inspect.isfunction(each)}
    described = functions | {name: each for name, each in classes.items() if name not in errors}
    leading = {name: described[name] for name in LEADING if name in described}
    for name, thing in (leading | described).items():
        yield from part(name, thing)
    known = {*classes, *functions, *(name for name, each in exported.items() if is_shape(each))}
    if aliases := [name for name in exported if name not in known]:
        yield f"### Types of `{door.__name__}`\n"
        yield "\n".join(alias_line(name, door) for name in aliases) + "\n"
    if errors:
        yield f"### Errors of `{door.__name__}`\n"
        for name, thing in errors.items():
            base = thing.__bases__[0].__name__
            members = [*fields_of(node_of(thing), thing), *methods_of(name, thing)]
            head = bullet(f"{name}({base})", documented(name, thing.__doc__))
            yield "\n".join([head, *(textwrap.indent(each, "  ") for each in members)])
        yield ""


def alias_line(name: str, door: ModuleType) -> str:
    value, text = alias_of(name, door)
    return bullet(f"{name} = {value}" if len(value) < WIDTH else name, text)


def shapes_page(text: str) -> Iterator[str]:
    """The shapes that the text names, and those that they name."""
    yield SHAPES_HEAD
    exported = {name for door in doors() for name in door.__all__ if is_shape(getattr(door, name))}
    wanted, listed = exported | named(text), dict[str, str]()
    while missing := sorted(wanted - listed.keys()):
        for name in missing:
            shape = SHAPES[name]
            members = "\n".join(fields_of(node_of(shape), shape))
            listed[name] = f"### `{name}`\n\n{documented(name, shape.__doc__)}\n\n{members}\n"
            wanted |= named(members)
    for name in sorted(listed):
        yield listed[name]


def named(text: str) -> set[str]:
    return set(re.findall(r"\b[A-Z][A-Za-z]+\b", text)) & SHAPES.keys()


def page() -> str:
    body = "\n".join(line for door in doors() for line in door_page(door))
    whole = "\n".join([HEAD, body, *shapes_page(body)])
    pieces = re.split(r"(^```python\n.*?^```$)", whole, flags=re.MULTILINE | re.DOTALL)
    prose = [piece if piece.startswith("```") else re.sub(r"\n{3,}", "\n\n", piece) for piece in pieces]
    return "".join(prose).rstrip() + "\n"
