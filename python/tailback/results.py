"""What a run gives: `Result`, its tables and figures, and the folder that keeps them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.table import Table

from tailback import run_folder
from tailback.files.out_folder import OutFolder
from tailback.findings.table import closing_table
from tailback.recorded.run import Recorded
from tailback.summary import summarise


class Result(Recorded):
    """One run, with its figures, and its folder."""

    @property
    def summary(self) -> dict[str, Any]:
        """The figures of the run, see `tailback.summary.summarise`."""
        return summarise(self)

    def closing_table(self) -> Table:
        """What the terminal shows at the end of a run."""
        return closing_table(self)

    def write(self, out_dir: str | Path | OutFolder, report: bool = True) -> Path:
        """Write the folder of the run and give its path, see `tailback.run_folder.write`."""
        return run_folder.write(self, out_dir, report)

    @classmethod
    def load(cls, folder: str | Path) -> Result:
        """Read the folder of a run, see `tailback.run_folder.load`."""
        return run_folder.load(folder, cls)
