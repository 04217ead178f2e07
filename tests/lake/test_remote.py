"""A Spark Connect server or a master that does not respond, and work that needs a driver."""

from __future__ import annotations

import socket
from contextlib import closing

import pytest

from neve.app.serve.config import API, RECEIVER, WORKER
from neve.app.serve.preflight import check_lake
from neve.errors import ConfigError, LakeError
from neve.lake.config import CatalogConfig, LakeConfig, S3Config, SparkConfig
from neve.lake.lake import Lake
from neve.lake.spark.session import build_session, check_master, check_reachable, open_remote_session


def test_a_server_that_listens_is_reachable() -> None:
    """By the address that users write, with parameters or without."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        port = server.getsockname()[1]
        check_reachable(f"sc://127.0.0.1:{port}")
        check_reachable(f"sc://127.0.0.1:{port}/;user_id=neve")


def test_a_server_that_is_away_is_told_at_once() -> None:
    """With its place, and not after minutes of attempts."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        port = server.getsockname()[1]
    with pytest.raises(LakeError, match=f"127.0.0.1:{port} does not respond"):
        open_remote_session(f"sc://127.0.0.1:{port}", {})


def free_port() -> int:
    """Return a port at which nobody listens."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        port: int = server.getsockname()[1]
    return port


def test_a_master_that_listens_sees_an_address_of_this_machine() -> None:
    """One of several is enough; other kinds of masters are not checked."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        port = server.getsockname()[1]
        assert check_master(f"spark://127.0.0.1:{port}") == "127.0.0.1"
        assert check_master(f"spark://127.0.0.1:{free_port()},127.0.0.1:{port}") == "127.0.0.1"
    assert check_master("local[*]") == check_master("yarn") == check_master("k8s://https://127.0.0.1:1") == ""


def test_a_master_that_does_not_respond_is_named_before_a_jvm_starts() -> None:
    """Spark itself would try for a minute and a half."""
    port = free_port()
    spark = SparkConfig(master=f"spark://127.0.0.1:{port}")
    with pytest.raises(LakeError, match=f"no master responds .127.0.0.1:{port}: Connection refused"):
        build_session(spark, CatalogConfig(), LakeConfig(), S3Config())


def test_work_that_needs_a_driver_is_refused_at_once() -> None:
    """The message names the work and the setting. The receiver and queries run behind Spark Connect."""
    lake = Lake(LakeConfig(), CatalogConfig(), S3Config(), SparkConfig(connect="sc://127.0.0.1:15002"))
    with pytest.raises(ConfigError, match="a rollup needs a Spark driver in this process") as caught:
        lake.check_driver("a rollup")
    assert "spark.master" in (caught.value.hint or "")
    with pytest.raises(ConfigError, match="the process for streams and jobs needs a Spark driver"):
        check_lake(lake, {RECEIVER, API, WORKER})
    assert check_lake(lake, {RECEIVER}) is None
