"""The fraud example with a sink: all that it declares, and an archive of payments in PostgreSQL."""

import importlib.util
from pathlib import Path

import headrace as hr

FRAUD = Path(__file__).parents[2] / "examples" / "fraud" / "app.py"

_spec = importlib.util.spec_from_file_location("fraud_example", FRAUD)
assert _spec is not None
assert _spec.loader is not None
_module = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_module)
globals().update({name: value for name, value in vars(_module).items() if not name.startswith("_")})

archive = hr.Sink("archive", of=_module.payments, to=hr.Postgres("env:SOAK_POSTGRES", table="payments"))
