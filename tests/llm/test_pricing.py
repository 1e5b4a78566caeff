"""Prices and estimates, against figures worked out by hand."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_lab.llm import pricing

# The table, as published in October 2026: input, 5-minute write, 1-hour write, cache read, output.
PUBLISHED = {
    "claude-opus-5-5": (4, 5, 8, 0.20, 20),
    "claude-sonnet-5-5": (2, 2.50, 4, 0.10, 10),
    "claude-haiku-5-5": (0.10, 0.125, 0.20, 0.01, 0.50),
    "claude-opus-5": (5, 6.25, 10, 0.50, 25),
    "claude-opus-4-8": (5, 6.25, 10, 0.50, 25),
    "claude-opus-4-7": (5, 6.25, 10, 0.50, 25),
    "claude-opus-4-6": (5, 6.25, 10, 0.50, 25),
    "claude-opus-4-5": (5, 6.25, 10, 0.50, 25),
    "claude-haiku-4-5": (1, 1.25, 2, 0.10, 5),
    "claude-3-haiku": (0.25, 0.30, None, 0.03, 1.25),
}
# Anthropic 2024: a million document tokens in documents of 8,000, chunks of 800.
MILLION = [8_000] * 125


@pytest.mark.parametrize("model", PUBLISHED)
def test_a_million_tokens_of_each_kind_cost_the_published_price(model: str) -> None:
    million = 1_000_000
    plain, five, hour, read, out = PUBLISHED[model]
    # Haiku 5.5 charges five times as much for prompts over 100,000 tokens.
    factor = 5 if model == "claude-haiku-5-5" else 1
    assert pricing.dollars(model, million) == pytest.approx(plain * factor)
    assert pricing.dollars(model, cache_write={"5m": million}) == pytest.approx(five * factor)
    assert pricing.dollars(model, cache_read=million) == pytest.approx(read * factor)
    assert pricing.dollars(model, output=million) == pytest.approx(out)  # no prompt: the lower rate
    assert pricing.dollars(model, output=million, batch=True) == pytest.approx(out / 2)
    if hour is None:
        with pytest.raises(ValueError, match=r"no '1h' cache; offered: 5m"):
            pricing.dollars(model, cache_write={"1h": 1})
    else:
        assert pricing.dollars(model, cache_write={"1h": million}) == pytest.approx(hour * factor)


def test_the_long_prompt_rate_starts_above_100_000_prompt_tokens_of_any_kind() -> None:
    # 50,000 read, 40,000 written, 10,000 new: (500 + 5,000 + 1,000) / 1e6, and 1,000 output tokens 500 / 1e6.
    within = pricing.dollars("claude-haiku-5-5", 10_000, 50_000, 1_000, {"5m": 40_000})
    assert within == pytest.approx((500 + 5_000 + 1_000 + 500) / 1e6)
    # One token more, and all of it costs five times as much, the output too.
    above = pricing.dollars("claude-haiku-5-5", 10_001, 50_000, 1_000, {"5m": 40_000})
    assert above == pytest.approx(5 * (within + 0.1e-6))


def test_dated_and_local_names_and_an_unknown_model() -> None:
    assert pricing.dollars("claude-opus-4-5-20251101", 1_000_000) == 5
    assert pricing.dollars("local/qwen3-8b", 1_000_000, output=1_000_000) == 0
    with pytest.raises(ValueError, match=r"'claude-9'.*Add an entry under `models` in data/prices\.yaml"):
        pricing.price("claude-9")
    with pytest.raises(ValueError, match="tier 'gold'"):
        pricing.rate_limits("gold")


def test_the_published_dollar_and_two_cents_per_million_document_tokens() -> None:
    # Claude 3 Haiku, 1,250 chunks. Written once: 1M x 0.30 = 0.30. Read for every chunk: 10M x 0.03 = 0.30.
    # Chunk and instruction: 1,250 x 850 x 0.25 / 1e6 = 0.265625. Contexts: 125,000 x 1.25 / 1e6 = 0.15625.
    published = pricing.estimate("claude-3-haiku", pricing.context_calls(MILLION, prewarm=True))
    assert published.dollars == pytest.approx(0.30 + 0.30 + 0.265625 + 0.15625)
    assert published.dollars == pytest.approx(1.02, abs=0.01)
    # Where the first chunk's own call writes the document, it need not read it: one read of 1M less.
    economical = pricing.estimate("claude-3-haiku", pricing.context_calls(MILLION))
    assert economical.dollars == pytest.approx(published.dollars - 0.03)
    assert (economical.requests, economical.cache_write_tokens, economical.cache_read_tokens) == (
        1_250,
        1_000_000,
        9_000_000,
    )


def test_caching_makes_the_input_about_70_percent_cheaper_and_the_whole_66() -> None:
    calls = pricing.context_calls(MILLION)
    cached = pricing.estimate("claude-3-haiku", calls)
    plain = pricing.estimate("claude-3-haiku", calls, cache="")
    # Without: 1,250 x 8,850 tokens x 0.25 = 2.765625, and the contexts.
    assert plain.dollars == pytest.approx(2.765625 + 0.15625)
    assert plain.input_tokens == 1_250 * 8_850
    contexts = 0.15625
    assert 1 - (cached.dollars - contexts) / (plain.dollars - contexts) == pytest.approx(0.70, abs=0.005)
    assert 1 - cached.dollars / plain.dollars == pytest.approx(0.66, abs=0.005)


def test_a_180_page_pdf_in_2025_and_today() -> None:
    # 500 pages are 200,000 tokens (Anthropic 2024), so 180 pages are 72,000: 90 chunks. Haiku 4.5:
    # write 0.09, 89 reads of 72,000 tokens 0.6408, 90 x 850 new 0.0765, 9,000 written 0.045.
    then = pricing.estimate("claude-haiku-4-5", pricing.context_calls([72_000]))
    assert then.dollars == pytest.approx(0.09 + 0.6408 + 0.0765 + 0.045)
    # Models since 4.7 count about 30% more tokens: 93,600, so 117 chunks. Haiku 5.5: write 0.0117, 116 reads
    # 0.108576, 117 x 850 new 0.009945, 11,700 written 0.00585. One practitioner reported $1.30 in 2025.
    calls = pricing.context_calls([93_600])
    limits = pricing.rate_limits("start")
    today = pricing.estimate("claude-haiku-5-5", calls, limits=limits)
    assert today.dollars == pytest.approx(0.0117 + 0.108576 + 0.009945 + 0.00585)
    # 117 requests of 1,000 a minute decide: 0.117 minutes; 193,050 of 2M input and 11,700 of 400,000 output less.
    assert today.minutes == pytest.approx(0.117)
    # But the chunks of one document wait for each other: at 2 s a call, 234 s.
    one_by_one = pricing.estimate("claude-haiku-5-5", calls, limits=limits, seconds_per_call=2)
    assert one_by_one.minutes == pytest.approx(3.9)
    # A document over 100,000 tokens falls into the long-prompt rate: 6.8% more text, 5.6 times the price.
    longer = pricing.estimate("claude-haiku-5-5", pricing.context_calls([100_000]))
    assert longer.dollars / today.dollars == pytest.approx(5.63, abs=0.01)


def test_half_price_and_no_rate_limit_as_a_batch() -> None:
    calls = pricing.context_calls([8_000])
    batch = pricing.estimate("claude-haiku-4-5", calls, batch=True, limits=pricing.rate_limits(), seconds_per_call=9)
    assert batch.dollars == pytest.approx(pricing.estimate("claude-haiku-4-5", calls).dollars / 2)
    assert batch.minutes == 0
    assert "half price" in str(batch)


def test_geminis_stored_cache_costs_by_the_hour_and_says_the_date_of_its_prices() -> None:
    # Written 8,000 x 0.75, read 9 x 8,000 x 0.075, new 10 x 850 x 0.75, out 1,000 x 3.75, and kept two hours:
    # 8,000 x 2 x 0.50, all / 1e6.
    found = pricing.estimate("gemini-3.8-flash", pricing.context_calls([8_000]), cache="1h", hours=2)
    assert found.dollars == pytest.approx((6_000 + 5_400 + 6_375 + 3_750 + 8_000) / 1e6)
    assert "2026-10-05, valid until 2026-12-31" in str(found)
    with pytest.raises(ValueError, match=r"no '5m' cache; offered: 1h"):
        pricing.estimate("gemini-3.8-flash", pricing.context_calls([8_000]))


def test_a_prefix_under_the_minimum_is_paid_in_full_and_noted() -> None:
    # Haiku 4.5 caches from 4,096 tokens on; Haiku 5.5 from 512.
    short = pricing.estimate("claude-haiku-4-5", pricing.context_calls([4_000]))
    assert (short.cache_write_tokens, short.cache_read_tokens) == (0, 0)
    assert short.input_tokens == 5 * (4_000 + 850)
    assert "5 prefix(es) are under the 4,096 tokens" in str(short)
    assert pricing.estimate("claude-haiku-5-5", pricing.context_calls([4_000])).cache_read_tokens == 16_000


def test_a_last_chunk_is_as_long_as_what_is_left() -> None:
    calls = pricing.context_calls([1_700], chunk_tokens=800, instruction_tokens=50, context_tokens=100)
    assert [call.tokens for call in calls] == [850, 850, 150]


def test_documents_run_together_but_each_waits_for_itself() -> None:
    calls = pricing.context_calls([8_000, 8_000, 1_600])  # 10, 10 and 2 calls
    minutes = [
        pricing.estimate("claude-haiku-5-5", calls, seconds_per_call=6, at_once=n).minutes for n in (1, 2, 100)
    ]
    assert minutes == pytest.approx([2.2, 1.1, 1.0])


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(0, 40_000), max_size=6), st.sampled_from(["", "5m", "1h"]), st.booleans())
def test_nothing_is_lost_or_counted_twice_in_an_estimate(documents: list[int], cache: str, prewarm: bool) -> None:
    calls = pricing.context_calls(documents, prewarm=prewarm)
    found = pricing.estimate("claude-haiku-4-5", calls, cache=cache)
    assert found.input_tokens + found.cache_write_tokens + found.cache_read_tokens == sum(
        call.tokens + call.prefix_tokens for call in calls
    )
    by_hand = found.input_tokens * 1 + found.cache_read_tokens * 0.10 + found.output_tokens * 5
    by_hand += found.cache_write_tokens * {"": 0, "5m": 1.25, "1h": 2}[cache]
    assert found.dollars == pytest.approx(by_hand / 1e6)


@settings(deadline=None, max_examples=100)
@given(st.text())
def test_the_bound_is_the_bytes_and_the_estimate_is_never_above_it(text: str) -> None:
    assert pricing.token_bound(text) == len(text.encode())
    assert 0 <= pricing.token_estimate(text) <= pricing.token_bound(text)


def test_the_estimate_by_hand_in_several_scripts() -> None:
    # "The cap is $5,000." -> The 2, _ 0, cap 2, _ 0, is 1, _ 0, $ 5 , 0 0 0 . 7
    assert pricing.token_estimate("The cap is $5,000.") == 12
    assert pricing.token_estimate("camelCase ABC\n") == 3 + 2 + 2 + 1  # camel, Case, ABC, newline
    assert pricing.token_estimate("שלום") == 8  # two bytes a letter
    assert pricing.token_estimate("保险") == 6
    assert pricing.token_estimate("👩🏽") == 8
