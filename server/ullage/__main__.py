"""`python -m ullage` is the `ullage` command."""

import sys

from ullage.cli import main

sys.exit(main())
