"""Values as people write them in a form, and as a form shows them."""

from __future__ import annotations


def whole_number(text: str) -> int | str:
    """A whole number; what is none is left for the validation to refuse by name."""
    digits = text.replace(",", "").replace(" ", "")
    return int(digits) if digits.isdecimal() and len(digits) < 16 else text


def number(text: str) -> float | str:
    """A number; what is none is left for the validation to refuse by name."""
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return text


def yes(text: str) -> bool | str:
    """Yes or no as such; anything else is left for the validation to refuse."""
    return {"yes": True, "no": False}.get(text, text)


def written(value: str | float) -> str:
    """A value as the form shows it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return repr(value).removesuffix(".0") if isinstance(value, float) else str(value)
