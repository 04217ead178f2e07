"""What the shop's services log of the requests that they have served: sentences, and the facts that fill them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from neve.demo.log import DEBUG, INFO

if TYPE_CHECKING:
    from neve.demo.attributes import Attributes


@dataclass(frozen=True, slots=True)
class Message:
    """A sentence with gaps, the span attributes that fill them, and how often it is logged at all."""

    text: str
    facts: tuple[str, ...] = ()
    chance: float = 1.0
    severity: int = INFO

    def fill(self, attributes: Attributes) -> str:
        """Return the sentence with the facts of a span in its gaps."""
        return self.text.format(*(attributes[fact] for fact in self.facts))

    def parameters(self, attributes: Attributes) -> Attributes:
        """Return the same facts apart, as the record's attributes."""
        return {fact: attributes[fact] for fact in self.facts}


_ACCESS = ("http.request.method", "http.route", "http.response.status_code")

MESSAGES: dict[tuple[str, str], Message] = {
    ("frontend", "GET /"): Message("{} {} {}", _ACCESS),
    ("frontend", "GET /product/{id}"): Message("{} {} {} product={}", (*_ACCESS, "app.product.id")),
    ("frontend", "GET /search"): Message("{} {} {} q={!r}", (*_ACCESS, "app.search.query")),
    ("frontend", "GET /cart"): Message("{} {} {}", _ACCESS),
    ("frontend", "POST /cart"): Message("{} {} {} product={}", (*_ACCESS, "app.product.id")),
    ("frontend", "GET /checkout/methods"): Message("{} {} {}", _ACCESS),
    ("frontend", "POST /checkout"): Message("{} {} {} items={}", (*_ACCESS, "app.cart.items")),
    ("cart", "GetCart"): Message(
        "cart of {} has {} items", ("app.user.id", "app.cart.items"), chance=0.8, severity=DEBUG
    ),
    ("cart", "AddItem"): Message(
        "added {} x {} to the cart of {}", ("app.product.quantity", "app.product.id", "app.user.id")
    ),
    ("cart", "EmptyCart"): Message("emptied the cart of {}", ("app.user.id",)),
    ("catalog", "ListProducts"): Message("listed the front page products", chance=0.6, severity=DEBUG),
    ("catalog", "GetProduct"): Message("product {} found", ("app.product.id",), chance=0.65, severity=DEBUG),
    ("catalog", "SearchProducts"): Message(
        "search for {!r} found {} products", ("app.search.query", "app.search.hits")
    ),
    ("inventory", "GetStock"): Message(
        "{} of {} on hand", ("app.stock.on_hand", "app.product.id"), chance=0.7, severity=DEBUG
    ),
    ("inventory", "Reserve"): Message("reserved stock for order {}", ("app.order.id",)),
    ("shipping", "POST /quote"): Message(
        "quoted {} for shipping to {}", ("app.shipping.cost", "app.shipping.country"), chance=0.8
    ),
    ("shipping", "POST /ship"): Message("parcel of order {} leaves for {}", ("app.order.id", "app.shipping.country")),
    ("currency", "Convert"): Message("converted to {}", ("app.currency",), chance=0.35, severity=DEBUG),
    ("recommendation", "ListRecommendations"): Message(
        "best match beside {} scores {}", ("app.product.id", "app.recommendation.score"), chance=0.8
    ),
    ("ad", "GetAds"): Message("serving {} ads", ("app.ads.count",), chance=0.7),
    ("fraud", "Score"): Message("order {} scored {}", ("app.order.id", "app.fraud.score")),
    ("fraud", "orders process"): Message("updated features from {} orders", ("messaging.batch.message_count",)),
    ("email", "orders process"): Message("sent the confirmation of order {}", ("app.order.id",)),
    ("payment", "Charge"): Message(
        "charged {} {} to a {} card for order {}",
        ("app.order.amount", "app.currency", "app.payment.card_type", "app.order.id"),
    ),
    ("payment", "ListMethods"): Message("listed payment methods of {}", ("app.user.id",)),
}
"""By service and operation; what is not here is logged only when it goes wrong."""
