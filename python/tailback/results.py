"""`Result`: tables and figures of a run, and its folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tailback import run_folder, text
from tailback.files.out_folder import OutFolder
from tailback.metrics import summarise
from tailback.recorded.run import Recorded

if TYPE_CHECKING:
    from rich.table import Table

    from tailback.explain import Page


class Result(Recorded):
    @property
    def summary(self) -> dict[str, Any]:
        """The figures of the run, see `tailback.metrics.summarise`."""
        return summarise(self)

    def closing_table(self) -> Table:
        """The table that the terminal shows at the end of a run."""
        from tailback.closing_table import closing_table

        return closing_table(self)

    def explain(self, tries: bool | None = None) -> Page:
        """The bottleneck of the run and its evidence, see `tailback.explain`.

        Args:
            tries: True: simulate the run again with each possible bottleneck doubled; None: only if that
                takes seconds.

        Raises:
            ValueError: `tries` is true and the run cannot be simulated again.
        """
        from tailback.explain import page_of, trials

        return page_of(self, trials.answer(self, tries))

    def __repr__(self) -> str:
        """Name, seed and duration of the run, and its first finding, in one line."""
        from tailback.metrics import findings

        first = findings(self)[0]
        duration = text.duration(self.bins.end_s)
        return f"<Result {self.name}, seed {self.meta['seed']}, {duration}: {first.what} {first.figure}>"

    def _repr_html_(self) -> str:
        from tailback.notebook import as_html, as_text

        return as_html(as_text(self.closing_table()))

    def write(self, out_dir: str | Path | OutFolder, report: bool = True) -> Path:
        """Write the folder of the run and give its path, see `tailback.run_folder.write`."""
        return run_folder.write(self, out_dir, report)

    @classmethod
    def load(cls, folder: str | Path) -> Result:
        """Read the folder of a run, see `tailback.run_folder.load`."""
        return run_folder.load(folder, cls)
