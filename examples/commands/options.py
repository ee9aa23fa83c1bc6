"""Options of the command line read off typed signatures: name, type, default and help, said once.

A parameter `num_buckets: int = 4`, of which the docstring says `num_buckets: Padded lengths at
most.`, becomes `--num-buckets N  padded lengths at most (default: 4)`.
"""

import argparse
import dataclasses
import inspect
import pathlib
import re
import types
import typing
from collections.abc import Callable, Iterable

from examples.commands import arguments
from examples.commands.arguments import UsageError

#: Numbers with a range: annotations of parameters that become options.
PositiveFloat = typing.Annotated[float, arguments.positive_number]
NonNegativeFloat = typing.Annotated[float, arguments.not_negative]
#: From 0 to below 1.
Fraction = typing.Annotated[float, arguments.fraction]
#: Above 0 and below 1.
OpenFraction = typing.Annotated[float, arguments.share]
Seed = typing.Annotated[int, arguments.seed]
VocabularySize = typing.Annotated[int, arguments.int_at_least(5)]
#: Texts that are no flags: `plot RUN TEXT TEXT`.
Positional = typing.Annotated[list[str], "positional"]
Directory = typing.Annotated[pathlib.Path, str]

REQUIRED = inspect.Parameter.empty
#: How an annotation without a range is read.
READERS = {int: arguments.positive_int, float: arguments.finite, str: str, pathlib.Path: str}
ENTRY = re.compile(r"(\w+(?:, \w+)*): (.*)")


@dataclasses.dataclass(frozen=True)
class FlagGroup:
    """Flags of one parameter: the metadata of its annotation.

    Attributes:
        add: Adds the flags to a parser.
        make: Returns the value of the parameter from the parsed arguments and the run.
    """

    add: Callable[[argparse.ArgumentParser], None]
    make: Callable[[argparse.Namespace, object], object]


@dataclasses.dataclass(frozen=True)
class Option:
    """One option of a function or dataclass.

    Attributes:
        name: Of the parameter.
        annotation: Its type: int (a positive one), float, str, `pathlib.Path`, bool, a `Literal`,
            a list of them, or one of the annotations above. Of alternatives, such as None, the
            command line knows the first.
        default: `REQUIRED` if there is none.
        help: What the docstring says of it.
    """

    name: str
    annotation: object
    default: object
    help: str

    @property
    def flag(self) -> str:
        """What the command line calls it."""
        return f"--{self.name.replace('_', '-')}"

    @property
    def metavar(self) -> str:
        """What stands for its value in `--help`."""
        kind, reader = _split(self.annotation)
        if kind is pathlib.Path:
            return "DIR" if reader is str else "FILE"
        return {int: "N", float: "X"}.get(kind, self.name.split("_")[-1].upper())

    def add_to(self, group) -> None:
        """Adds the option to a parser, or to a group of one.

        None of them is required there, so that a run that goes on need not repeat it; see
        `check_given`.
        """
        kind, reader, default = *_split(self.annotation), self.default
        if kind == list[str] and reader == "positional":
            group.add_argument(self.name, nargs="*", metavar="TEXT", help=self.help)
            return
        if isinstance(reader, FlagGroup):
            reader.add(group)
            return
        options = {"default": None if default is REQUIRED else default, "help": self.help}
        if kind is bool:
            options["help"] += f" (default: {'on' if default else 'off'})"
            group.add_argument(self.flag, action=argparse.BooleanOptionalAction, **options)
            return
        if default is not None and default is not REQUIRED and default != []:
            options["help"] += " (default: %(default)s)"
        if typing.get_origin(kind) is list and reader is None:
            options |= {"nargs": "+", "action": _Extend}
            (kind,) = typing.get_args(kind)
        if typing.get_origin(kind) is typing.Literal:
            options["choices"] = typing.get_args(kind)
        else:
            options["type"] = reader or READERS[kind]
            options["metavar"] = self.metavar
        group.add_argument(self.flag, **options)


class _Extend(argparse.Action):
    """Adds to what was given before; what is given first replaces the default.

    The action "extend" adds to the default, which is the list of the run where one goes on.
    """

    def __call__(self, parser, namespace, values, option_string=None):
        before = getattr(namespace, self.dest)
        setattr(namespace, self.dest, values if before is self.default else [*before, *values])


def options_of(target: Callable, skip: Iterable[str] = (), required: bool = True) -> list[Option]:
    """Returns an option for each parameter of a function or dataclass.

    Args:
        target: Function or dataclass with annotated parameters and a Google-style docstring.
        skip: Names that are no options.
        required: Whether parameters without a default are options.

    Example:

    >>> def measure(*, num_buckets: int = 4, text: str | None = None):
    ...     '''Measures.
    ...
    ...     Args:
    ...         num_buckets: Padded lengths at most.
    ...         text: What is measured, all of it
    ...             by default.
    ...     '''
    >>> for option in options_of(measure):
    ...     print(option.flag, option.help)
    --num-buckets padded lengths at most
    --text what is measured, all of it by default
    """
    hints, helps = typing.get_type_hints(target, include_extras=True), _read_helps(target)
    found = []
    for name, parameter in inspect.signature(target).parameters.items():
        is_required = parameter.default is REQUIRED
        if name in skip or name == "self" or (is_required and not required):
            continue
        if name not in helps:
            raise ValueError(f"The docstring of {target.__qualname__} says nothing of {name}.")
        found.append(Option(name, hints[name], parameter.default, helps[name]))
    return found


def take(
    options: Iterable[Option], namespace: argparse.Namespace, run: object = None
) -> dict[str, object]:
    """Returns the values of options in parsed arguments, those of paths as `pathlib.Path`.

    Args:
        options: The options.
        namespace: The parsed arguments.
        run: The run that a `FlagGroup` gets.
    """
    values = {}
    for option in options:
        kind, reader = _split(option.annotation)
        if isinstance(reader, FlagGroup):
            values[option.name] = reader.make(namespace, run)
            continue
        value = getattr(namespace, option.name)
        is_path = kind is pathlib.Path and value is not None
        values[option.name] = pathlib.Path(value) if is_path else value
    return values


def restore(options: Iterable[Option], record: dict[str, object], where: str) -> dict[str, object]:
    """Returns the values of options that a run was started with; of those it lacks, the defaults.

    Args:
        options: The options.
        record: Name to value, as JSON holds them.
        where: What an error calls the record.

    Raises:
        ValueError: A value that is not of the option's type.
    """
    values = {}
    for option in options:
        default = None if option.default is REQUIRED else option.default
        value = values[option.name] = record.get(option.name, default)
        kind = _split(option.annotation)[0]
        if value is None or value == default:
            continue
        if typing.get_origin(kind) is typing.Literal:
            is_right, told = value in typing.get_args(kind), f"one of {typing.get_args(kind)}"
        elif kind is int:
            is_right, told = isinstance(value, int) and value >= 0, "an int of at least 0"
        else:
            wanted = {float: (int, float), pathlib.Path: str}.get(
                kind, typing.get_origin(kind) or kind
            )
            is_right, told = isinstance(value, wanted), f"a {kind}"
        if not is_right:
            raise ValueError(
                f"{where} is expected to hold {option.name}, {told}. "
                f"Received: {option.name}={value!r}"
            )
    return values


def check_given(options: Iterable[Option], namespace: argparse.Namespace) -> None:
    """Raises `UsageError` if an option without a default was not given."""
    for option in options:
        if option.default is REQUIRED and getattr(namespace, option.name) is None:
            raise UsageError(f"{option.flag} {option.metavar} is missing: {option.help}.")


def check_used(
    options: Iterable[Option],
    values: dict[str, object],
    belongs_to: dict[str, tuple[str, tuple[str, ...]]],
) -> None:
    """Raises `UsageError` if an option was changed that has no effect.

    Args:
        options: The options.
        values: The value of each, by name.
        belongs_to: Name of an option to the name of another one, and to the values of that one
            with which it has an effect.
    """
    for option in options:
        owner, counted = belongs_to.get(option.name, (None, ()))
        if owner is None or values[owner] in counted or values[option.name] == option.default:
            continue
        flag = f"--{owner.replace('_', '-')}"
        raise UsageError(
            f"{option.flag} is for {flag} {' or '.join(counted)}. Leave it out, or choose that. "
            f"Received: {option.flag} {values[option.name]} {flag} {values[owner]}"
        )


def describe(target: Callable) -> tuple[str, str]:
    """Returns the first sentence of a docstring, and the rest but for its sections.

    A section is `Args:`, `Attributes:`, `Returns:`, `Yields:` or `Raises:` and what is indented
    below it.
    """
    summary, _, rest = inspect.getdoc(target).partition("\n\n")
    section = re.compile(r"^(?:Args|Attributes|Returns|Yields|Raises):\n(?:[ ]+.*\n|\n)*", re.M)
    return " ".join(summary.split()), section.sub("", rest + "\n").strip("\n")


def _split(annotation):
    """The first type of an annotation, and the function that reads and checks a text."""
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        annotation = typing.get_args(annotation)[0]
    if typing.get_origin(annotation) is typing.Annotated:
        return annotation.__origin__, annotation.__metadata__[0]
    return annotation, None


def _read_helps(target):
    """What the docstring of a function, or those of a class and its bases, say of parameters."""
    owners = reversed(target.__mro__) if isinstance(target, type) else [target]
    helps = {}
    for owner in owners:
        names = []
        for line in _section(inspect.cleandoc(owner.__doc__ or "")):
            entry = None if line.startswith(" " * 5) else ENTRY.fullmatch(line.strip())
            if entry:
                names = entry[1].split(", ")
                helps |= dict.fromkeys(names, entry[2])
            else:
                helps |= {name: f"{helps[name]} {line.strip()}" for name in names}
    return {name: _as_help(text) for name, text in helps.items()}


def _section(doc):
    """The lines below `Args:` or `Attributes:`."""
    found = re.search(r"^(?:Args|Attributes):\n((?:[ ]+.*(?:\n|$))*)", doc, re.M)
    return found[1].splitlines() if found else []


def _as_help(text):
    """A sentence of a docstring as the help of argparse has it: no capital, no full stop."""
    text = text.strip().removesuffix(".").replace("%", "%%")
    return text if text[1:2].isupper() else text[:1].lower() + text[1:]
