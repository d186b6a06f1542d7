"""`python -m shelltie` is `shelltie`."""

from shelltie.frontends.cli.main import main

raise SystemExit(main())
