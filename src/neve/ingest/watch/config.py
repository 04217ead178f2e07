"""What users set about the queues that announce files."""

from pydantic import Field, SecretStr

from neve.model.section import Section


class SqsConfig(Section):
    """An SQS queue that gets a bucket's events; empty values leave access to the usual AWS chain."""

    queue_url: str = Field("", description="URL of the queue; empty for none")
    region: str = Field("us-east-1", min_length=1, description="region of the queue")
    endpoint: str = Field("", description="URL of an SQS-compatible server; empty for AWS")
    access_key: str = Field("", description="access key; empty for the usual AWS chain")
    secret_key: SecretStr = Field(SecretStr(""), description="secret key")
    wait_seconds: int = Field(20, ge=0, le=20, description="how long one request waits for messages")
    visibility_seconds: int = Field(
        120, ge=1, le=43_200, description="when a message that could not be kept comes back; keeping one takes less"
    )
    batch_messages: int = Field(10, ge=1, le=10, description="how many messages one request takes")
    retry_seconds: float = Field(30, gt=0, le=3600, description="longest pause after a failure")


class WatchConfig(Section):
    """Which announced files are taken in."""

    places: tuple[str, ...] = Field(
        ("s3://",),
        description="folders and s3:// prefixes that announced files may be in; others are refused and put on record",
    )
    sqs: SqsConfig = Field(SqsConfig(), description="queue of a bucket's events")
