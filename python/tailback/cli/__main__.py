"""`python -m tailback.cli`, where no `tailback` is on the path."""

import sys

from tailback.cli import main

sys.exit(main())
