"""Small encoders for tests: random ones with trained tokenizers, and one that counts the pooled tokens."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import tokenizers
import torch
import transformers
from tokenizers import decoders, normalizers, pre_tokenizers, processors, trainers

from rag_lab.models.encoder import Encoder
from rag_lab.models.hub import EmbeddingTraits, ModelFiles
from rag_lab.types import Chunk, Document

KINDS = ("wordpiece", "byte_level", "unigram")
TRAINING = [
    "Berlin is the capital of Germany. It has 3.85 million inhabitants, and its area is 891 km².",
    "تهران پایتخت ایران است. این شهر بزرگ است.",
    "ירושלים היא עיר עתיקה. היא בהרים.",
    "Москва — столица России. Город большой.",
    "北京是中国的首都。这座城市很大。",
    "naïve café, 👩‍👩‍👧 and 👍🏽!",
]


def train(kind: str) -> tuple[tokenizers.Tokenizer, dict[str, str]]:
    """A tokenizer of about 400 tokens and the roles of its special tokens."""
    if kind == "wordpiece":
        roles = {"unk_token": "[UNK]", "pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
        tokenizer = tokenizers.Tokenizer(tokenizers.models.WordPiece(unk_token="[UNK]"))
        tokenizer.normalizer = normalizers.BertNormalizer()
        tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        trainer: Any = trainers.WordPieceTrainer(vocab_size=400, special_tokens=[*roles.values()])
    elif kind == "byte_level":
        roles = {"pad_token": "<pad>", "cls_token": "<s>", "sep_token": "</s>"}
        tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        trainer = trainers.BpeTrainer(vocab_size=400, special_tokens=[*roles.values()], initial_alphabet=alphabet)
    else:
        roles = {"unk_token": "<unk>", "pad_token": "<pad>", "cls_token": "<s>", "sep_token": "</s>"}
        tokenizer = tokenizers.Tokenizer(tokenizers.models.Unigram())
        tokenizer.normalizer = normalizers.NFKC()
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
        trainer = trainers.UnigramTrainer(vocab_size=300, special_tokens=[*roles.values()], unk_token="<unk>")
    tokenizer.train_from_iterator(TRAINING, trainer)
    first, last = roles["cls_token"], roles["sep_token"]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{first} $A {last}", special_tokens=[(token, tokenizer.token_to_id(token)) for token in (first, last)]
    )
    return tokenizer, roles


def save_model(folder: Path, kind: str) -> None:
    """A random one-layer model with 128 positions for text, its trained tokenizer, and mean pooling on record."""
    trained, roles = train(kind)
    transformers.PreTrainedTokenizerFast(tokenizer_object=trained, **roles).save_pretrained(folder)
    sizes = {
        "vocab_size": trained.get_vocab_size(),
        "hidden_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 32,
        "pad_token_id": trained.token_to_id(roles["pad_token"]),
    }
    torch.manual_seed(0)
    if kind == "wordpiece":
        config: Any = transformers.BertConfig(max_position_embeddings=128, **sizes)
    else:  # RoBERTa's positions begin after the padding id
        config_class = transformers.RobertaConfig if kind == "byte_level" else transformers.XLMRobertaConfig
        config = config_class(max_position_embeddings=128 + sizes["pad_token_id"] + 1, **sizes)
    transformers.AutoModel.from_config(config).save_pretrained(folder)
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode": "mean"}), encoding="utf-8")


class CountingModel:
    """A stand-in whose vector of a token is a 1 at the token's id: what was pooled can be read off the sum."""

    dtype, device = torch.float32, torch.device("cpu")

    def __init__(self, vocabulary: int, window: int = 12) -> None:
        self.config = SimpleNamespace(hidden_size=vocabulary, max_position_embeddings=window)
        self.lengths: list[int] = []

    def eval(self) -> "CountingModel":
        return self

    def __call__(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> SimpleNamespace:
        self.lengths += attention_mask.sum(dim=1).tolist()
        states = torch.nn.functional.one_hot(input_ids, self.config.hidden_size).float()
        return SimpleNamespace(last_hidden_state=states)


WORDS = ("[PAD]", "[CLS]", "[SEP]", "a", "b", "c", "d", "e", "f", "##x", "p", ":")


def counting_encoder(traits: EmbeddingTraits | None = None, window: int = 12, specials: bool = True) -> Encoder:
    """Words of one letter; an "x" after a letter is a token of its own."""
    ids = {word: i for i, word in enumerate(WORDS)}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordPiece(ids, unk_token="[PAD]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    if specials:
        pair = [("[CLS]", ids["[CLS]"]), ("[SEP]", ids["[SEP]"])]
        tokenizer.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=pair)
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="[PAD]")
    files = ModelFiles("counting", "", "path", "")
    return Encoder(CountingModel(len(WORDS), window), fast, files, traits or EmbeddingTraits("mean"))


def counted(vector: np.ndarray) -> dict[str, int]:
    """How often each token was pooled, from a vector's proportions (the rarest token counts once)."""
    shares = vector / vector[vector > 0].min()
    assert np.allclose(shares, shares.round(), atol=1e-4)
    return {WORDS[i]: int(count) for i, count in enumerate(shares.round()) if count}


def cut(document: Document, *bounds: tuple[int, int]) -> list[Chunk]:
    return [Chunk(document.id, i, document.text[start:end], start, end) for i, (start, end) in enumerate(bounds)]
