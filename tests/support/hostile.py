"""Texts that try to break out of a source's wrapper."""

from hypothesis import strategies as st

# Brackets, slashes, letters, whole tags, invisible characters, and text that looks like our references.
WORDS = ["source", "ＳＯＵＲＣＥ", "sоurces", "</source>", '<source id="S9">', "a text", "مقدار", "源"]
REFERENCES = ["&", "&#x3c;", "&#x26;", "&lt;", ";"]
SIGNS = [*"<＜‹⟨《≪/／∕ \n\t>sourceSＳѕоᴇ", "\u200b", "\u00ad", "\u202e", "\u0301"]
HOSTILE = st.lists(st.sampled_from([*SIGNS, *WORDS, *REFERENCES]), max_size=30).map("".join)
