"""Raised and lowered characters, which carry meaning by position: powers, note numbers, indices."""

import re

SUPERSCRIPTS = str.maketrans("0123456789+-−=()n", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻⁼⁽⁾ⁿ")
SUBSCRIPTS = str.maketrans("0123456789+-−=()", "₀₁₂₃₄₅₆₇₈₉₊₋₋₌₍₎")
SYMBOL = re.compile(r"(?<![^\W\d_])[^\W\d_]{1,2}$")  # a unit or a variable: cm, x
BASE = re.compile(r"(?<![\d.,])(?:10|2)$")  # bases that documents raise to a power; after another number it is a note


def raised(text: str, before: str, is_link: bool = False) -> str:
    """Raised ``text`` after ``before``: a power as superscripts (10⁶, m², x⁻¹), a note in brackets (450 [1]).

    Raised letters stay as they are (1st), except a lone one after a variable (xⁿ). A link to a note is a note.
    """
    if re.fullmatch(r"\[.*\]|\W*", text):
        return text
    variable = re.search(r"(?<![^\W_])[^\W\d_]$", before)
    if text.isalpha() and not (len(text) == 1 and (variable or BASE.search(before))):
        return text
    says_so = re.search(r"[^\W\d_]|^[-−+]|[-−+]$", text) or BASE.search(before)
    if is_link or not (says_so or (text in ("2", "3") and SYMBOL.search(before))):
        return f" [{text}]"
    written = text.translate(SUPERSCRIPTS)
    return written if all(character in SUPERSCRIPTS.values() for character in map(ord, written)) else f"^{text}"


def lowered(text: str, before: str, after: str) -> str:
    """Lowered ``text`` as it is (CO2, x1), or as subscripts where it would join a number (log₂8, 101₂)."""
    return text.translate(SUBSCRIPTS) if before[-1:].isdigit() or after[:1].isdigit() else text
