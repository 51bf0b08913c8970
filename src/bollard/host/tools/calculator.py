"""A calculator for decimal expressions. Pure, without Python's `eval`, and bounded in length, depth, digits and
exponents."""

import decimal
import math
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Final

from bollard.host.limits import EXPRESSION_CHARACTERS, EXPRESSION_DEPTH

_DIGITS: Final = 100
_EXPONENT: Final = 9999
_PLAIN_EXPONENT: Final = 60
"""Larger and smaller numbers are written with an exponent."""
_ARGUMENTS: Final = 50
_TOKEN: Final = re.compile(
    r"\s*(?:((?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d{1,4})?)|([a-z_]\w*)|(\*\*|//|[-+*/%^(),]))", re.ASCII | re.IGNORECASE
)
_CONTEXT: Final = decimal.Context(
    prec=_DIGITS,
    Emax=_EXPONENT,
    Emin=-_EXPONENT,
    rounding=decimal.ROUND_HALF_EVEN,
    traps=[decimal.InvalidOperation, decimal.DivisionByZero, decimal.Overflow],
)
_CONSTANTS: Final = {
    "pi": Decimal(
        "3.14159265358979323846264338327950288419716939937510582097494459230781640628620899862803482534211707"
    ),
    "e": Decimal(
        "2.71828182845904523536028747135266249775724709369995957496696762772407663035354759457138217852516643"
    ),
}


class CalculationRefused(ValueError):
    """The expression cannot be calculated. The message says why."""


def calculate(expression: str) -> str:
    """The value as text. Raises `CalculationRefused`."""
    if len(expression) > EXPRESSION_CHARACTERS:
        raise CalculationRefused(f"the expression is longer than {EXPRESSION_CHARACTERS} characters")
    with decimal.localcontext(_CONTEXT):
        try:
            return _format(_Parser(_tokens(expression)).value())
        except decimal.DivisionByZero:
            raise CalculationRefused("division by zero") from None
        except decimal.Overflow:
            raise CalculationRefused(f"the value is beyond 1e{_EXPONENT}") from None
        except (decimal.InvalidOperation, ValueError, OverflowError) as error:
            if isinstance(error, CalculationRefused):
                raise
            raise CalculationRefused("the value is undefined, such as the root of a negative number") from None


class _Parser:
    """Evaluates tokens by recursive descent: sum, product, sign, power, atom."""

    def __init__(self, tokens: list[str]) -> None:
        self._tokens = tokens
        self._at = 0
        self._depth = 0

    def value(self) -> Decimal:
        value = self._sum()
        if self._at < len(self._tokens):
            raise CalculationRefused(f"unexpected {self._tokens[self._at]!r}")
        return value

    def _sum(self) -> Decimal:
        self._depth += 1
        if self._depth > EXPRESSION_DEPTH:
            raise CalculationRefused(f"brackets are nested more than {EXPRESSION_DEPTH} deep")
        value = self._product()
        while (sign := self._take("+", "-")) is not None:
            right = self._product()
            value = value + right if sign == "+" else value - right
        self._depth -= 1
        return value

    def _product(self) -> Decimal:
        value = self._signed()
        while (sign := self._take("*", "/", "//", "%")) is not None:
            right = self._signed()
            match sign:
                case "*":
                    value = value * right
                case "/":
                    value = value / right
                case "//":
                    value = _floor(value / right)
                case _:
                    value = value - right * _floor(value / right)
        return value

    def _signed(self) -> Decimal:
        negative = False
        while (sign := self._take("+", "-")) is not None:
            negative ^= sign == "-"
        value = self._power()
        return -value if negative else value

    def _power(self) -> Decimal:
        value = self._atom()
        if self._take("**", "^") is None:
            return value
        self._depth += 1
        if self._depth > EXPRESSION_DEPTH:
            raise CalculationRefused(f"powers are nested more than {EXPRESSION_DEPTH} deep")
        exponent = self._signed()
        self._depth -= 1
        return value**exponent

    def _atom(self) -> Decimal:
        if self._take("(") is not None:
            value = self._sum()
            self._need(")")
            return value
        token = self._next()
        if token[0].isdigit() or token[0] == ".":
            return Decimal(token)
        if token in _CONSTANTS:
            return _CONSTANTS[token]
        if token in _FUNCTIONS:
            return self._call(token)
        known = ", ".join(sorted({*_FUNCTIONS, *_CONSTANTS}))
        raise CalculationRefused(f"unexpected {token!r}; known names are {known}")

    def _call(self, name: str) -> Decimal:
        self._need("(")
        arguments = [self._sum()]
        while self._take(",") is not None:
            arguments.append(self._sum())
        self._need(")")
        least, most, function = _FUNCTIONS[name]
        if not least <= len(arguments) <= most:
            raise CalculationRefused(
                f"{name} takes {least} to {most} numbers" if least != most else f"{name} takes {least}"
            )
        return function(arguments)

    def _take(self, *wanted: str) -> str | None:
        if self._at < len(self._tokens) and self._tokens[self._at] in wanted:
            self._at += 1
            return self._tokens[self._at - 1]
        return None

    def _need(self, wanted: str) -> None:
        if self._take(wanted) is None:
            raise CalculationRefused(f"{wanted!r} is missing")

    def _next(self) -> str:
        if self._at >= len(self._tokens):
            raise CalculationRefused("the expression ends too early")
        self._at += 1
        return self._tokens[self._at - 1]


def _tokens(expression: str) -> list[str]:
    tokens: list[str] = []
    at, text = 0, expression.rstrip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise CalculationRefused(f"unknown character {text[at:].lstrip()[:1]!r}; use numbers, + - * / // % ** ( )")
        tokens.append(match[match.lastindex or 0].lower())
        at = match.end()
    return tokens


def _floor(value: Decimal) -> Decimal:
    return value.to_integral_value(rounding=decimal.ROUND_FLOOR)


def _rounded(value: Decimal, places: Decimal = Decimal(0)) -> Decimal:
    if places != _floor(places) or not 0 <= places <= _DIGITS // 2:
        raise CalculationRefused(f"round takes 0 to {_DIGITS // 2} decimal places")
    return value.quantize(Decimal(1).scaleb(-int(places)))


def _by_float(function: Callable[[float], float]) -> "_Function":
    return lambda args: Decimal(repr(function(float(args[0]))))


_Function = Callable[[list[Decimal]], Decimal]
_FUNCTIONS: Final[dict[str, tuple[int, int, _Function]]] = {
    "abs": (1, 1, lambda args: abs(args[0])),
    "ceil": (1, 1, lambda args: args[0].to_integral_value(rounding=decimal.ROUND_CEILING)),
    "cos": (1, 1, _by_float(math.cos)),
    "exp": (1, 1, lambda args: args[0].exp()),
    "floor": (1, 1, lambda args: _floor(args[0])),
    "ln": (1, 1, lambda args: args[0].ln()),
    "log10": (1, 1, lambda args: args[0].log10()),
    "max": (1, _ARGUMENTS, max),
    "min": (1, _ARGUMENTS, min),
    "round": (1, 2, lambda args: _rounded(*args)),
    "sin": (1, 1, _by_float(math.sin)),
    "sqrt": (1, 1, lambda args: args[0].sqrt()),
    "tan": (1, 1, _by_float(math.tan)),
}
"""By name, the least and the most arguments, and the function."""


def _format(value: Decimal) -> str:
    if not value.is_finite():
        raise CalculationRefused("the value is undefined")
    value = value.normalize()
    if value == 0:
        return "0"
    if -_PLAIN_EXPONENT < value.adjusted() < _DIGITS:
        return f"{value:f}"
    return f"{value:E}"
