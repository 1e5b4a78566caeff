import regex

from rag_lab.text.scripts import NGRAM_SCRIPTS, UNSPACED

SPACED = "aÉдאاकα가9๓。-"  # the ๓ is a Thai digit


def test_scripts_without_spaces() -> None:
    unspaced = "中々あカーｰกກកမᥐ"  # the last five: Thai, Lao, Khmer, Burmese, Tai Le
    assert regex.findall(f"[{UNSPACED}]", unspaced + SPACED) == list(unspaced)
    assert regex.findall(f"[{NGRAM_SCRIPTS}]", unspaced + SPACED) == [*unspaced, "가"]
