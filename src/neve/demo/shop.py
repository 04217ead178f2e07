"""THE SHOP: a dozen services, and what visitors come for."""

from __future__ import annotations

from neve.demo.backoffice import CHECKOUT, EMAIL, FRAUD, INVENTORY, PAYMENT, SHIPPING
from neve.demo.storefront import AD, CART, CATALOG, CURRENCY, FRONTEND, RECOMMENDATION
from neve.demo.topology import Flow

SERVICES = (FRONTEND, CART, CHECKOUT, PAYMENT, SHIPPING, CURRENCY, CATALOG, RECOMMENDATION, AD, EMAIL, INVENTORY, FRAUD)
SHOP = {service.name: service for service in SERVICES}

FLOWS = (
    Flow("home", "frontend", "GET /", 20),
    Flow("product", "frontend", "GET /product/{id}", 24),
    Flow("search", "frontend", "GET /search", 14),
    Flow("cart", "frontend", "GET /cart", 8),
    Flow("add-to-cart", "frontend", "POST /cart", 11),
    Flow("methods", "frontend", "GET /checkout/methods", 8),
    Flow("checkout", "frontend", "POST /checkout", 15),
)
