"""Generated telemetry of a shop of a dozen services: an hour with one incident to find, as files or live."""

from neve.demo.generate import Record, Telemetry, Truth, generate
from neve.demo.incident import Incident
from neve.demo.spans import Interval

__all__ = ["Incident", "Interval", "Record", "Telemetry", "Truth", "generate"]
