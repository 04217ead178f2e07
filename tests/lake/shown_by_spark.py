"""A process with a Spark of its own that tells all that Spark shows; run by `test_spark_secrets.py`.

What is on a JVM's command line is decided when it starts, so the session of the other tests is of no use.
"""

from __future__ import annotations

import json
import sys
import urllib.request
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from neve.lake.config import CatalogConfig, LakeConfig, S3Config, SparkConfig
from neve.lake.lake import Lake


def lake_with(folder: Path, secrets: dict[str, str]) -> Lake:
    """A lake with secrets wherever it can have one."""
    conf = {
        "spark.ui.enabled": "true",
        "spark.ui.port": "0",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": str(folder / "events"),
        "spark.hadoop.fs.s3a.secret.key": secrets["conf"],
        "spark.redaction.regex": "mine",
        "spark.mine.key": secrets["mine"],
    }
    properties = {"header.Authorization": secrets["header"], "s3.access-key-id": secrets["access"]}
    credential = SecretStr(secrets["credential"])
    return Lake(
        LakeConfig(warehouse="s3://bucket/lake"),
        CatalogConfig(kind="rest", uri="http://127.0.0.1:9", credential=credential, properties=properties),
        S3Config(access_key=secrets["access"], secret_key=SecretStr(secrets["s3"])),
        SparkConfig(master="local[1]", log_file=str(folder / "spark.log"), conf=conf),
    )


def texts_in(folder: Path) -> str:
    """All that stands in the files of a folder."""
    return "".join(path.read_text() for path in folder.rglob("*") if path.is_file() and path.suffix != ".crc")


def plans_of(lake: Lake, folder: Path, login: str) -> list[str]:
    """Plan and progress of a stream with a login of Kafka."""
    spark: Any = lake.spark
    spark.sql("SELECT 1").collect()  # its event has every setting of the session
    options = {"kafka.sasl.jaas.config": login, "kafka.x.credential": login}
    kafka = spark.readStream.format("rate").options(**options).load()
    stream = kafka.writeStream.foreachBatch(lambda *_: None).option("checkpointLocation", str(folder / "checkpoint"))
    query = stream.trigger(availableNow=True).start()
    query.awaitTermination()
    return [kafka._jdf.queryExecution().toString(), str(query.lastProgress), str(query.recentProgress)]


def main() -> None:
    """Print what there is to see as JSON."""
    folder, secrets = Path(sys.argv[1]), json.load(sys.stdin)
    lake = lake_with(folder, secrets)
    spark: Any = lake.spark
    context = spark.sparkContext
    shown: dict[str, object] = {"plans": plans_of(lake, folder, secrets["jaas"])}
    address = f"{context.uiWebUrl}/api/v1/applications/{context.applicationId}/environment"
    with urllib.request.urlopen(address) as page:  # noqa: S310 - Spark's own
        shown["page"] = page.read().decode()
    shown["command"] = Path(f"/proc/{spark._jvm.java.lang.ProcessHandle.current().pid()}/cmdline").read_text()
    given = context._jsc.hadoopConfiguration().get("fs.s3a.secret.key")
    spark.stop()
    shown |= {"events": texts_in(folder / "events"), "checkpoint": texts_in(folder / "checkpoint")}
    sys.stdout.write("\n" + json.dumps({"shown": shown, "given": given}))


if __name__ == "__main__":
    main()
