"""A short command builds the models of pyiceberg that it uses, and imports no parser that it does not need."""

import os
import subprocess
import sys
from pathlib import Path

SCRIPT = """
import sys
from neve.lake.pyiceberg_import import defer_models
defer_models()
defer_models()
from pyiceberg.expressions import EqualTo, And
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType
import pyiceberg.manifest
from neve.lake.config import S3Config
print(EqualTo.__pydantic_complete__, S3Config.__pydantic_complete__, hasattr(sys.modules["strictyaml"], "__file__"))
schema = Schema(NestedField(1, "a", LongType()), NestedField(2, "b", StringType(), required=True))
assert Schema.model_validate_json(schema.model_dump_json()) == schema
assert And(EqualTo("a", 1), EqualTo("b", "x")).right == EqualTo("b", "x")
print(EqualTo.__pydantic_complete__, S3Config(region="a").region)
import strictyaml
print(strictyaml.load("a: b").data)
"""


def test_models_are_built_at_their_first_use(tmp_path: Path) -> None:
    """They validate as those that were built at once, and the parser works when somebody calls it."""
    command = [sys.executable, "-c", SCRIPT]
    environment = {**os.environ, "HOME": str(tmp_path)}
    ended = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path, env=environment)
    assert ended.stdout.splitlines() == ["False False False", "True a", "{'a': 'b'}"]
