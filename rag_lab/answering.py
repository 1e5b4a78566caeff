"""From a question to a checked answer: retrieve, gate, clean, compress, fit, write, check.

All that makes an answer is offered here; see ``answer_steps`` and ``answer_conclude`` for the two halves of it.
"""

from dataclasses import replace
from typing import Any

from rag_lab.answer_conclude import complete as complete
from rag_lab.answer_conclude import conclude as conclude
from rag_lab.answer_conclude import failed as failed
from rag_lab.answer_conclude import retry_prompt as retry_prompt
from rag_lab.answer_conclude import withhold as withhold
from rag_lab.answer_documents import answer_with_documents as answer_with_documents
from rag_lab.answer_steps import Prepared as Prepared
from rag_lab.answer_steps import prepare as prepare
from rag_lab.answer_stream import CitationEvent as CitationEvent
from rag_lab.answer_stream import DoneEvent as DoneEvent
from rag_lab.answer_stream import Event as Event
from rag_lab.answer_stream import SourcesEvent as SourcesEvent
from rag_lab.answer_stream import TextEvent as TextEvent
from rag_lab.answer_stream import stream_answer as stream_answer
from rag_lab.llm import Completion
from rag_lab.messages import CallFailed
from rag_lab.search import Retriever
from rag_lab.traces import Answer as Answer
from rag_lab.traces import Status as Status
from rag_lab.traces import Trace as Trace
from rag_lab.traces import load_answers as load_answers
from rag_lab.traces import save_answer as save_answer


def answer(question: str, retriever: Retriever, llm: Any, k: int = 5, **steps: Any) -> Answer:
    """The answer of ``llm`` (``LocalLLM`` or ``ClaudeLLM``) from the ``k`` best passages, checked, with its trace.

    ``steps`` are the keywords of ``prepare`` (``threshold``, ``clean``, ``compress``, ``order``, ``history``,
    ``template``, ``max_tokens``, ``budget_tokens``, ``form`` …), which may refuse before any model is called; what
    counts as which status is said at ``conclude``. Malformed JSON is shown to the model once, with the error. A
    call that fails (``CallFailed``) makes an answer with status error; anything else, ``OverBudget`` too, is raised.
    """
    prepared = prepare(question, retriever, llm, k, **steps)
    if prepared.prompt is None:
        return conclude(prepared)
    completion = None
    try:
        completion = complete(llm, prepared, prepared.prompt)
        if again := retry_prompt(prepared, completion):
            tokens = llm.count_prompt_tokens(again)  # may fail too: before the call, whose usage would be lost
            second = complete(llm, prepared, again)
            prepared = replace(prepared, prompt=again, prompt_tokens=tokens)
            completion = Completion(second.text, completion.usage + second.usage, second.stop_reason)
    except CallFailed as error:
        return failed(prepared, str(error), completion)
    return conclude(prepared, completion)
