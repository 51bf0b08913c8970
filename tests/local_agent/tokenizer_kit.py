"""A real tokenizer to compare counts with: the one of the bundled embedding model."""

from pathlib import Path

import pytest
import wordllama
from tokenizers import Tokenizer


@pytest.fixture(scope="session")
def real() -> Tokenizer:
    """Byte pairs, 32 000 tokens."""
    folder = Path(wordllama.__file__).parent / "tokenizers"
    tokenizer = Tokenizer.from_file(str(folder / "l2_supercat_tokenizer_config.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer
