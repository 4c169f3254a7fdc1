"""Fuzzes every reader: bytes in, a result or clean lines out.

`python fuzz/readers.py` gives each reader FUZZ_SECONDS (25) with atheris (libFuzzer: coverage is its guide)
in a process of its own, with limits on memory and on the time of one input; with names of readers only
these. It begins with fuzz/corpus and goes on with what it found in earlier runs, which is in fuzz/found, as
is what breaks a reader. Where atheris has no wheel for the running Python, the hypothesis form of the same
properties runs longer instead.
"""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
TESTS = HERE.parent / "tests"
FOUND = HERE / "found"
SECONDS = int(os.environ.get("FUZZ_SECONDS", "25"))
SEED = os.environ.get("FUZZ_SEED", "1")

sys.path.insert(0, str(TESTS))


def fuzz(target: str) -> None:
    """Does not return: libFuzzer ends the process."""
    import atheris

    with atheris.instrument_imports(include=["tailback"]):
        from fuzzed import TARGETS, mutated, seeds, words

    def mutate(data: bytes, most: int, seed: int) -> bytes:
        dice = random.Random(seed)
        changed = mutated(target, data, dice) if dice.random() < 0.5 else None
        return changed if changed and len(changed) <= most else atheris.Mutate(data, most)

    corpus = FOUND / f"{target}-corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    for name, data in seeds(target).items():
        (corpus / name).write_bytes(data)
    dictionary = FOUND / f"{target}.dict"
    dictionary.write_text("".join(f'"{_escaped(word)}"\n' for word in words(target)), encoding="utf-8")
    limits = ["-timeout=60", "-rss_limit_mb=2048", "-max_len=20000", f"-max_total_time={SECONDS}"]
    paths = [f"-artifact_prefix={FOUND}/{target}-", f"-dict={dictionary}", str(corpus)]
    atheris.Setup(
        [sys.argv[0], *limits, "-print_final_stats=1", f"-seed={SEED}", *paths],
        TARGETS[target],
        custom_mutator=mutate,
    )
    atheris.Fuzz()


def _escaped(word: str) -> str:
    return re.sub(r'[\\"]', r"\\\g<0>", word)


def main() -> int:
    """Fuzzes every reader; the status of the first that fails."""
    try:
        import atheris  # noqa: F401
    except ImportError:
        print("fuzz: atheris has no wheel for this Python; the hypothesis form runs longer instead")
        tests = [str(TESTS / name) for name in ("test_hpcc_fuzz.py", "test_fuzz_readers.py")]
        more = {**os.environ, "HYPOTHESIS_PROFILE": "long"}
        return subprocess.run(
            [sys.executable, "-m", "pytest", "-q", *tests], env=more, check=False
        ).returncode
    from fuzzed import TARGETS

    for target in TARGETS:
        print(f"fuzz: {target}, {SECONDS} s", flush=True)
        done = subprocess.run(
            [sys.executable, __file__, target],
            check=False,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        if done.returncode:
            print(done.stdout[-10_000:], file=sys.stderr)
            return done.returncode
        print("\n".join(line for line in done.stdout.splitlines() if line.startswith("Done ")), flush=True)
    return 0


if __name__ == "__main__":
    if len(sys.argv) > 1:
        fuzz(sys.argv[1])
    sys.exit(main())
