"""What users set about the queues that announce files."""

from pydantic import Field, SecretStr, field_validator

from neve.errors import ConfigError
from neve.ingest.watch.places import parse_place
from neve.model.organization import check_organization
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
    """Which announced files are ingested."""

    places: dict[str, tuple[str, ...]] = Field(
        {},
        description="folders and s3:// prefixes by organization that it may announce files in; "
        "files elsewhere are refused",
    )
    max_objects: int = Field(1000, ge=1, le=100_000, description="most files that one event may announce")
    attempts: int = Field(
        10, ge=1, le=1000, description="how often an announced file is tried before it goes to quarantine"
    )
    retry_seconds: float = Field(
        10, ge=0, le=3600, description="pause before an announced file is tried again; it doubles, up to an hour"
    )
    max_waiting: int = Field(
        10_000, ge=0, le=1_000_000, description="most announced files of an organization that wait for another attempt"
    )
    sqs: SqsConfig = Field(SqsConfig(), description="queue of a bucket's events")

    @field_validator("places", mode="before")
    @classmethod
    def _by_organization(cls, value: object) -> object:
        if not isinstance(value, dict):
            raise ValueError("should be a map from organizations to lists of places: {acme: [s3://raw/acme]}")
        return {name: (places,) if isinstance(places, str) else places for name, places in value.items()}

    @field_validator("places")
    @classmethod
    def _plain_places(cls, value: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
        return {_organization(name): tuple(_place(name, place) for place in places) for name, places in value.items()}


def _organization(name: str) -> str:
    try:
        return check_organization(name)
    except ConfigError as error:
        raise ValueError(f"should have names of organizations as keys: {error.message}") from None


def _place(organization: str, text: str) -> str:
    try:
        return parse_place(text)
    except ValueError as error:
        raise ValueError(f"has the place {text!r} of {organization}, which {error}") from None
