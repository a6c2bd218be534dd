"""The colours of causes can be told apart with every kind of colour vision, and texts be read."""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from syncscope.reports import html_report
from syncscope.reports.figures import IDLE_CAUSES_IN_WORDS

STYLES = (Path(html_report.__file__).parent / "static" / "report.css").read_text(encoding="utf-8")
LIGHT, DARK = (
    dict(re.findall(r"--([a-z_-]+): (#[0-9a-f]{6})", part))
    for part in re.split(r"@media screen and \(prefers-color-scheme: dark\)", STYLES)[:2]
)
SCHEMES = {"light": LIGHT, "dark": {**LIGHT, **DARK}}

# Machado, Oliveira and Fernandes, "A Physiologically-based Model for Simulation of Color Vision
# Deficiency", IEEE TVCG 15 (2009): severity 1.0, for linear RGB.
VISIONS = {
    "normal": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
                   [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
                     [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602],
                   [0.004733, 0.691367, 0.303900]],
}  # fmt: skip
TO_XYZ = np.array(
    [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
)  # of sRGB, D65
WHITE = np.array([0.9505, 1.0, 1.089])
CLEARLY = 10.0
"""In CIE76: 2.3 is just noticeable between patches that touch."""


def linear(color):
    values = np.array([int(color[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def lab(color, vision):
    xyz = TO_XYZ @ np.clip(np.array(vision) @ linear(color), 0, 1) / WHITE
    x, y, z = np.where(xyz > 216 / 24389, np.cbrt(xyz), (24389 / 27 * xyz + 16) / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def contrast(one, other):
    """As WCAG 2 defines it, from 1 to 21."""
    light, dark = sorted((float(TO_XYZ[1] @ linear(color)) for color in (one, other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("vision", VISIONS)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_causes_have_colours_that_can_be_told_apart(scheme, vision):
    colors = {cause: lab(SCHEMES[scheme][cause], VISIONS[vision]) for cause in IDLE_CAUSES_IN_WORDS}
    for one, other in combinations(IDLE_CAUSES_IN_WORDS, 2):
        assert np.linalg.norm(colors[one] - colors[other]) > CLEARLY, (one, other)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_texts_stand_out_from_the_page(scheme):
    colors = SCHEMES[scheme]
    for text in ("text", "muted"):
        for ground in ("page", "panel"):
            assert contrast(colors[text], colors[ground]) >= 4.5, (text, ground)
