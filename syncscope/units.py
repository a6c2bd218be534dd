"""Numbers as people read them. Arguments carry their unit; texts come back."""

from __future__ import annotations

_DURATIONS = ((1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "µs"), (1, "ns"))
_SIZES = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def duration(time_ns: float) -> str:
    """Three significant digits in the largest fitting unit: 24.1 ms, 850 µs, 0 ms."""
    if time_ns < 0.5:
        return "0 ms"
    for factor, unit in _DURATIONS:
        # 999.6 of a unit would be printed as 1000 of it: the next larger unit reads better.
        if time_ns >= 0.9995 * factor or factor == 1:
            return f"{_three_digits(time_ns / factor)} {unit}"
    raise AssertionError("the last unit fits everything")


def percent(fraction: float) -> str:
    """A share of 1; what is neither nothing nor everything is never rounded to it."""
    if fraction <= 0:
        return "0 %"
    if fraction < 0.01:
        return "<1 %"
    if 0.99 < fraction < 1:
        return ">99 %"
    return f"{fraction * 100:.0f} %"


def byte_size(size_bytes: float) -> str:
    """Three significant digits in binary units: 4 B, 1.5 KiB, 256 MiB."""
    for factor, unit in _SIZES:
        if size_bytes >= 0.9995 * factor:
            return f"{_three_digits(size_bytes / factor)} {unit}"
    return f"{size_bytes:.0f} B"


def quantity(number: int, noun: str, plural: str = "") -> str:
    """A number with its noun: 1 line, 3 lines, 12,000 lines."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def with_article(number: str) -> str:
    """A text that begins with a number, after "a" or "an" as it is spoken: an 8, an 11.5, a 24."""
    whole = number.split(" ", 1)[0].split(".", 1)[0]
    return f"{'an' if whole.startswith('8') or whole in ('11', '18') else 'a'} {number}"


def rate(per_step: float) -> str:
    """Occurrences per step: 46, 2.5, 0.02, <0.01."""
    if 0 < per_step < 0.005:
        return "<0.01"
    if per_step >= 100:
        return f"{per_step:,.0f}"
    return f"{per_step:.2f}".rstrip("0").rstrip(".")


def _three_digits(value: float) -> str:
    if value >= 99.95:
        return f"{value:,.0f}"
    digits = 1 if value >= 9.995 else 2
    return f"{value:.{digits}f}".rstrip("0").rstrip(".")
