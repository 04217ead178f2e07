"""The demo's telemetry: an hour in the life of a shop of a dozen services, with one incident to find."""

from neve.demo.generate import generate
from neve.demo.incident import Incident
from neve.demo.interval import Interval
from neve.demo.telemetry import Telemetry
from neve.demo.truth import Record, Truth

__all__ = ["Incident", "Interval", "Record", "Telemetry", "Truth", "generate"]
