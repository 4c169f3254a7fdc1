"""Fuzzes the readers of the HPCC simulator's files: bytes in, a result or one clean line out.

`python fuzz/hpcc_readers.py` gives each reader 10 s with atheris (libFuzzer: coverage is its guide) in a
process of its own, with limits on memory and on the time of one input. Where atheris has no wheel for the
running Python, the hypothesis form of the same property runs longer instead. What breaks a reader is left in
fuzz/found.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
TESTS = HERE.parent / "tests"
FOUND = HERE / "found"
SECONDS = int(os.environ.get("FUZZ_SECONDS", "10"))

sys.path.insert(0, str(TESTS))


def fuzz(reader: str) -> None:
    """Does not return: libFuzzer ends the process."""
    import atheris

    with atheris.instrument_imports(include=["tailback.hpcc"]):
        from hpcc_files import TEXTS, answer

    corpus = FOUND / f"{reader}-corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    (corpus / "seed").write_bytes(TEXTS[f"{reader}.txt"].encode())
    dictionary = FOUND / "words.dict"
    limits = ["-timeout=5", "-rss_limit_mb=1024", "-max_len=4096", f"-max_total_time={SECONDS}"]
    paths = [f"-artifact_prefix={FOUND}/{reader}-", f"-dict={dictionary}", str(corpus)]
    atheris.Setup(
        [sys.argv[0], *limits, "-print_final_stats=1", "-seed=1", *paths], lambda data: answer(reader, data)
    )
    atheris.Fuzz()


def write_dictionary() -> None:
    """The words of the files, which chance would hardly find."""
    from tailback.hpcc.keys import KEYS
    from tailback.hpcc.quantities import RATE_UNITS, TIME_UNITS_FS

    words = [*KEYS, *RATE_UNITS, *TIME_UNITS_FS, "4294967295", "4294967296", "1000000000000", "1e999", "nan"]
    FOUND.mkdir(exist_ok=True)
    (FOUND / "words.dict").write_text("".join(f'"{word}"\n' for word in words), encoding="utf-8")


def main() -> int:
    """Fuzzes every reader; the status of the first that fails."""
    try:
        import atheris  # noqa: F401
    except ImportError:
        print("fuzz: atheris has no wheel for this Python; the hypothesis form runs longer instead")
        command = [sys.executable, "-m", "pytest", "-q", str(TESTS / "test_hpcc_fuzz.py")]
        more = {**os.environ, "HYPOTHESIS_PROFILE": "long"}
        return subprocess.run(command, env=more, check=False).returncode
    from hpcc_files import READERS

    write_dictionary()
    for reader in READERS:
        print(f"fuzz: {reader}.txt, {SECONDS} s", flush=True)
        done = subprocess.run(
            [sys.executable, __file__, reader], check=False, stderr=subprocess.PIPE, text=True
        )
        if done.returncode:
            print(done.stderr, file=sys.stderr)
            return done.returncode
        print("\n".join(line for line in done.stderr.splitlines() if line.startswith("Done ")), flush=True)
    return 0


if __name__ == "__main__":
    if len(sys.argv) > 1:
        fuzz(sys.argv[1])
    sys.exit(main())
