"""Every reader takes what it is given, or says in clean lines why not: the corpus, and changes of it.

`make fuzz` does the same with coverage as its guide.
"""

from __future__ import annotations

import os
import random

import pytest
from fuzzed import TARGETS, mutated, seeds, words
from hypothesis import given, settings
from hypothesis import strategies as st

# Where atheris cannot run, `make fuzz` runs this file with more examples.
EXAMPLES = 3000 if os.environ.get("HYPOTHESIS_PROFILE") == "long" else 40
targets = pytest.mark.parametrize("target", TARGETS)


@targets
def test_the_corpus(target: str) -> None:
    known = seeds(target)
    assert len(known) > 0
    answers = {name: TARGETS[target](data) for name, data in known.items()}
    assert any(answers.values()), "nothing of it is taken"


@targets
@given(seed=st.integers(0, 2**63), cut=st.integers(0, 40), new=st.binary(max_size=8))
@settings(max_examples=EXAMPLES, deadline=None)
def test_changes_of_the_corpus(target: str, seed: int, cut: int, new: bytes) -> None:
    dice = random.Random(seed)
    known = seeds(target)
    data = known[dice.choice(sorted(known))]
    changed = mutated(target, data, dice) if dice.random() < 0.5 else None
    if changed is None:
        at = dice.randrange(len(data) + 1)
        word = dice.choice([new, new, dice.choice(words(target)).encode()])
        changed = data[:at] + word + data[at + cut :]
    TARGETS[target](changed)
