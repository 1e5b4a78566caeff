r"""Scripts that are written without spaces between words.

Both constants go inside the brackets of a character class of ``regex``: ``rf"[{UNSPACED}]+"``.
"""

# Chinese, Japanese (with its long-vowel marks, which Unicode counts as common to several scripts), and line breaking
# class SA: Thai, Lao, Khmer, Burmese, Tai Le and others, without their digits.
UNSPACED = r"\p{Han}\p{Hiragana}\p{Katakana}ーｰ\p{LB=SA}"

# What BM25 cuts into pairs of characters. Korean is written with spaces, but its particles are attached to the words.
NGRAM_SCRIPTS = rf"{UNSPACED}\p{{Hangul}}"
