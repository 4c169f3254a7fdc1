"""Whatever the readers of the HPCC simulator's files are given, they read it or say in one line why not.

`make fuzz` does the same with coverage as its guide.
"""

from __future__ import annotations

import os
import time
import tracemalloc

import pytest
from hpcc_files import READERS, TEXTS, answer
from hypothesis import given, settings
from hypothesis import strategies as st
from tailback.hpcc.keys import CONFIG_KEYS

# Where atheris cannot run, `make fuzz` runs this file with more examples.
settings.register_profile("long", max_examples=3000, deadline=None)
if os.environ.get("HYPOTHESIS_PROFILE") == "long":
    settings.load_profile("long")

WORDS = [
    *map(str.encode, CONFIG_KEYS),
    *(b"0 1 2 3 -1 +5 007 1.5 1e3 1e999 nan inf 0x10 2_0 100Gbps 1000ns 0.001ms 1us ns Gbps / .".split()),
    b"4294967295",
    b"4294967296",
    b"1000000000000",
    b"18446744073709551616",
    b"\xff\xfe",
    b"\x00",
    "é".encode(),
]
SPACES = [b" ", b"\n", b"\t", b"\r\n", b"\v\f", b"", b"\x85", b"\xa0"]
tokens = st.lists(st.tuples(st.sampled_from(WORDS), st.sampled_from(SPACES)), max_size=60).map(
    lambda pairs: b"".join(word + space for word, space in pairs)
)
readers = pytest.mark.parametrize("reader", READERS)


@readers
@given(data=st.binary(max_size=400))
def test_any_bytes(reader: str, data: bytes) -> None:
    answer(reader, data)


@readers
@given(data=tokens)
def test_any_tokens(reader: str, data: bytes) -> None:
    answer(reader, data)


@readers
@given(
    cut=st.tuples(st.integers(0, 700), st.integers(0, 40)),
    new=st.one_of(tokens, st.binary(max_size=8), st.sampled_from(WORDS)),
    again=st.booleans(),
)
def test_mutated_files(reader: str, cut: tuple[int, int], new: bytes, again: bool) -> None:
    data = TEXTS[f"{reader}.txt"].encode()
    start, length = cut[0] % (len(data) + 1), cut[1]
    answer(reader, data[:start] + new + data[start + length :] * (1 + again))


@readers
@given(index=st.integers(0, 200), word=st.sampled_from(WORDS))
def test_one_token_replaced(reader: str, index: int, word: bytes) -> None:
    words = TEXTS[f"{reader}.txt"].encode().split()
    words[index % len(words)] = word
    answer(reader, b" ".join(words))


@readers
def test_the_unchanged_files_are_read(reader: str) -> None:
    assert answer(reader, TEXTS[f"{reader}.txt"].encode())


@readers
@pytest.mark.parametrize("count", [b"65536", b"4294967295", b"1000000000000"])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_count_is_no_reason_to_reserve_memory(reader: str, count: bytes, place: int) -> None:
    words = TEXTS[f"{reader}.txt"].encode().split()
    words[place % len(words)] = count
    tracemalloc.start()
    begin = time.process_time()
    answer(reader, b" ".join(words) + b" KMAX_MAP " + count + b" 1 1")
    took = time.process_time() - begin
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # 65,536 nodes are possible, and take a list each.
    assert peak < 30e6
    assert took < 2


@readers
def test_a_megabyte_of_garbage(reader: str) -> None:
    begin = time.process_time()
    for data in (
        b"\x00\xff" * 500_000,
        b"a " * 500_000,
        b"9" * 1_000_000,
        b"1 " * 500_000,
        b"\n" * 1_000_000,
    ):
        answer(reader, data)
    assert time.process_time() - begin < 10
