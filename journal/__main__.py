"""`python -m journal` is `journal`."""

import sys

from journal.cli import main

sys.exit(main())
