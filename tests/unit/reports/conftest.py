"""Fixtures for the reports' tests: analyses built by hand, made by functions of one module."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="session")
def analyses() -> ModuleType:
    """The module analyses.py next to this file; tests are not a package to import it from."""
    path = Path(__file__).with_name("analyses.py")
    spec = importlib.util.spec_from_file_location("syncscope_test_analyses", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
