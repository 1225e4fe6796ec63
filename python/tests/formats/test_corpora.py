"""Every file of the corpora is read as other readers do, or rejected as they do."""

from __future__ import annotations

from types import ModuleType

import pytest

import corpora
import corpora_parquet
from corpora import READ, REFUSED

CORPORA = [corpora_parquet]


@pytest.mark.parametrize("corpus", CORPORA, ids=lambda corpus: corpus.FOLDER)
def test_corpus_files_match_other_readers_or_are_rejected(
    corpus: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    root = corpora.folder()
    if root is None or not (root / corpus.FOLDER).is_dir():
        pytest.skip("the corpora are not here; see EUPHRATES_CORPORA")
    verdicts = corpora.judged(corpus, corpus.files(root / corpus.FOLDER))
    with capsys.disabled():
        print(f"\n{corpora.table({corpus.FOLDER: verdicts})}")
    bad = [verdict for verdict in verdicts if verdict.outcome not in (READ, REFUSED)]
    assert verdicts
    assert not bad, "\n".join(map(str, bad))
