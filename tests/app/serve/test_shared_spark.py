"""One Spark for a process group: lent by who tends, borrowed by the API."""

from __future__ import annotations

import pytest

from neve.app.serve.spark_sharing import (
    PLUGIN,
    PLUGINS,
    PORT,
    TOKEN_VARIABLE,
    is_spark_shared,
    new_connect_token,
    with_connect_server,
    with_remote_spark,
)
from neve.app.settings import Settings
from neve.lake.config import LakeConfig, SparkConfig
from neve.lake.lake import Lake

ALL = ("receiver", "api", "tend")


def with_section(section: str, **values: object) -> Settings:
    """Settings of which some differ from the defaults."""
    plain = Settings()
    return plain.model_copy(update={section: getattr(plain, section).model_copy(update=values)})


@pytest.mark.parametrize(
    ("settings", "processes", "shared"),
    [
        (Settings(), ALL, True),
        (Settings(), ("api", "receiver"), False),
        (Settings(), ("receiver", "tend"), False),
        (with_section("query", spark_bytes=0), ALL, False),
        (with_section("spark", connect="sc://cluster:15002"), ALL, False),
        (with_section("spark", master="spark://cluster:7077"), ALL, True),
    ],
)
def test_a_group_shares_its_spark_where_there_is_one_and_someone_asks(
    settings: Settings, processes: tuple[str, ...], shared: bool
) -> None:
    """Whoever named a server has it already."""
    assert is_spark_shared(settings, processes) is shared


def test_who_lends_keeps_what_the_user_set() -> None:
    """Further plugins too."""
    lake = Lake(spark_config=SparkConfig(conf={PLUGINS: "a.Plugin", "spark.x": "1"}))
    conf = with_connect_server(lake, 4711).spark_config.conf
    assert (conf[PLUGINS], conf[PORT], conf["spark.x"]) == (f"a.Plugin,{PLUGIN}", "4711", "1")


def test_no_secret_is_in_the_settings_of_who_lends() -> None:
    """They stand on a command line; the word is in the environment, another one for each start."""
    word = new_connect_token()[TOKEN_VARIABLE]
    assert len(word) > 30
    assert word != new_connect_token()[TOKEN_VARIABLE]
    assert word not in str(with_connect_server(Lake(), 4711).spark_config)


def test_who_borrows_leaves_results_where_they_would_be() -> None:
    """On this machine for an embedded Spark, though the tables are elsewhere."""
    lake = Lake(lake=LakeConfig(warehouse="s3://bucket/lake"))
    with_it = with_remote_spark(lake, 4711)
    assert with_it.spark_config.connect == "sc://localhost:4711"
    assert with_it.exchange.folder == lake.exchange.folder
    cluster = Lake(lake=LakeConfig(warehouse="s3://bucket/lake"), spark_config=SparkConfig(master="spark://c:7077"))
    assert with_remote_spark(cluster, 4711).exchange.folder == cluster.exchange.folder
