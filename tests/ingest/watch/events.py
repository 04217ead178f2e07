"""Events as the stores send them, with the fields that real ones have."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote_plus

ETAG = "0cc175b9c0f1b6a831c399e269772661"
TIME = "2026-11-15T08:30:00.125Z"
Document = dict[str, Any]


def s3_record(key: str, event: str = "ObjectCreated:Put", bucket: str = "raw") -> Document:
    """One record of an S3 notification; S3 writes keys as forms do."""
    removed = "Removed" in event
    stored = {"key": quote_plus(key, safe="/"), "sequencer": "0055AED6DCD90281E5"}
    return {
        "eventVersion": "2.1",
        "eventSource": "aws:s3",
        "awsRegion": "eu-central-1",
        "eventTime": TIME,
        "eventName": event,
        "userIdentity": {"principalId": "AIDAEXAMPLE"},
        "requestParameters": {"sourceIPAddress": "192.0.2.3"},
        "responseElements": {"x-amz-request-id": "C3D13FE58DE4C810", "x-amz-id-2": "FMyUVURIY8/IgAtTv8xRjskZQpcIZ9KG"},
        "s3": {
            "s3SchemaVersion": "1.0",
            "configurationId": "to-neve",
            "bucket": {"name": bucket, "ownerIdentity": {"principalId": "A3NL"}, "arn": f"arn:aws:s3:::{bucket}"},
            "object": stored if removed else stored | {"size": 1024, "eTag": ETAG, "versionId": "096fKKXTRTtl3on89fVO"},
        },
    }


def s3(*records: Any) -> Document:
    """An S3 notification."""
    return {"Records": list(records)}


def minio(key: str, bucket: str = "raw") -> Document:
    """MinIO's: a head of its own with the plain key, and a record as S3 writes it."""
    record = s3_record(key, "s3:ObjectCreated:Put", bucket)
    record |= {"eventSource": "minio:s3", "eventVersion": "2.0", "awsRegion": ""}
    return {"EventName": "s3:ObjectCreated:Put", "Key": f"{bucket}/{key}", "Records": [record]}


def eventbridge(key: str, kind: str = "Object Created", bucket: str = "raw") -> Document:
    """S3's event by way of EventBridge, which leaves the key as it is."""
    return {
        "version": "0",
        "id": "17793124-05d4-b198-2fde-7ededc63b103",
        "detail-type": kind,
        "source": "aws.s3",
        "account": "111122223333",
        "time": "2026-11-15T08:30:00Z",
        "region": "eu-central-1",
        "resources": [f"arn:aws:s3:::{bucket}"],
        "detail": {
            "version": "0",
            "bucket": {"name": bucket},
            "object": {
                "key": key,
                "size": 1024,
                "etag": ETAG,
                "version-id": "IYV3p45",
                "sequencer": "00617F08299329D189",
            },
            "request-id": "N4N7GDK58NMKJ12R",
            "requester": "123456789012",
            "reason": "PutObject",
        },
    }


def sns(document: Document) -> Document:
    """The envelope of an SNS topic."""
    return {
        "Type": "Notification",
        "MessageId": "22b80b92-fdea-4c2c-8f9d-bdfb0c7bf324",
        "TopicArn": "arn:aws:sns:eu-central-1:111122223333:raw-files",
        "Subject": "Amazon S3 Notification",
        "Message": json.dumps(document),
        "Timestamp": TIME,
        "SignatureVersion": "1",
        "Signature": "EXAMPLEw6JRN",
        "SigningCertURL": "https://sns.example.com/cert.pem",
        "UnsubscribeURL": "https://sns.example.com/?Action=Unsubscribe",
    }


def s3_test() -> Document:
    """What S3 sends when a notification is set up."""
    return {"Service": "Amazon S3", "Event": "s3:TestEvent", "Time": TIME, "Bucket": "raw", "RequestId": "5582815E1AEA"}


def as_bytes(document: Any) -> bytes:
    """The document on the wire."""
    return json.dumps(document).encode()
