"""Form controls of a scenario: one row a field, with its meaning, its unit and its default."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

import dash_mantine_components as dmc
from dash import html

from zerosim_app.components.attributes import wild

CONTROL: Final = "sim-field"
"""The type in the ids of all controls: `{"type": CONTROL, "path": "schedule.prefetch"}`."""
ROW: Final = "sim-row"
UNIT: Final = "sim-unit"
"""The types of a control's row and of its unit, which the browser keeps up with what is typed."""
LONG: Final = 10_000
"""Numbers from here on are written in groups of three digits."""
_GROUPED: Final = re.compile(r"-?\d{1,3}(,\d{3})+")


@dataclass(frozen=True, slots=True)
class Field:
    """One field: where it is set (`section.field`), what it takes, its default and its value now.

    `grouped`: choices under headings, each with a line about it.
    """

    path: str
    says: str
    default: Any
    value: Any
    unit: str = ""
    kinds: tuple[type, ...] = ()
    choices: tuple[Any, ...] = ()
    grouped: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = ()

    @property
    def name(self) -> str:
        """The field's own name; a section's `name` goes by that of the section."""
        section, _, name = self.path.partition(".")
        return section if name == "name" else name


def control(field: Field) -> html.Div:
    """A row: the name, a control that holds the value as text, the unit, what it does, its default."""
    value, default = shown_of(field.value), shown_of(field.default)
    told = f"default {default or 'none'}"
    return html.Div(
        [
            html.Label(html.Code(_breakable(field.name)), className="zs-field-name"),
            _input(field, value),
            html.Span(
                field.unit,
                id={"type": UNIT, "path": field.path},
                className="zs-note zs-field-unit",
                **wild({"data-unit": field.unit}),
            ),
            html.Span(
                [html.Span(f"{_sentence(field.says)} "), html.Span(told, className="zs-default")],
                className="zs-field-says",
            ),
        ],
        id={"type": ROW, "path": field.path},
        className="zs-field" if value == default else "zs-field zs-changed",
        **wild({"data-default": default}),
    )


def _input(field: Field, value: str) -> dmc.Select | dmc.TextInput:
    id_ = {"type": CONTROL, "path": field.path}
    named = wild({"aria-label": f"{field.name}: {field.says}"})
    if field.grouped:
        return _grouped(field, value)
    choices = [text_of(choice) for choice in field.choices]
    if not choices and field.kinds == (bool,):
        choices = ["true", "false"]
    if choices:
        also = [v for v in dict.fromkeys((text_of(field.default), value)) if v not in choices]
        return dmc.Select(
            id=id_,
            data=[{"value": v, "label": v or "none"} for v in (*choices, *also)],
            value=value,
            allowDeselect=False,
            size="xs",
            searchable=True,
            **named,
        )
    return dmc.TextInput(
        id=id_, value=value, placeholder=shown_of(field.default) or "none", debounce=500, size="xs",
        **named,
    )  # fmt: skip


def _grouped(field: Field, value: str) -> dmc.Select:
    data = [
        {"group": group, "items": [{"value": v, "label": v, "says": says} for v, says in choices]}
        for group, choices in field.grouped
    ]
    return dmc.Select(
        id={"type": CONTROL, "path": field.path}, data=data, value=value, allowDeselect=False,
        size="xs", searchable=True, maxDropdownHeight=420,
        comboboxProps={"width": 340, "position": "bottom-end"},
        renderOption={"function": "zsOption"}, **wild({"aria-label": f"{field.name}: {field.says}"}),
    )  # fmt: skip


def shown_of(value: object) -> str:
    """A value as the form writes it: `500,000,000`."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= LONG:
        return f"{value:,}"
    return text_of(value)


def plain(text: str) -> str:
    """What the form wrote, as `--set` reads it: `500000000`."""
    return text.replace(",", "") if _GROUPED.fullmatch(text) else text


def text_of(value: object) -> str:
    """A value as `--set` reads it; nothing for None."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)


def _breakable(name: str) -> list[str | html.Wbr]:
    """A name whose line may break after an underscore, and nowhere else."""
    first, *rest = name.split("_")
    parts: list[str | html.Wbr] = [first]
    for part in rest:
        parts[-1] = f"{parts[-1]}_"
        parts += [html.Wbr(), part]
    return parts


def _sentence(says: str) -> str:
    return f"{says[:1].upper()}{says[1:]}."
