"""The shop: the services that visitors browse, the list of all services, and the flows of visitors. Data only."""

from __future__ import annotations

from neve.demo.order_services import CHECKOUT, EMAIL, FRAUD, INVENTORY, PAYMENT, SHIPPING
from neve.demo.topology import (
    Call,
    Failure,
    Flow,
    Latency,
    Operation,
    Parallel,
    Pool,
    Query,
    Service,
    Store,
    Topic,
    Work,
)

CARTS = Store("redis", "0", "cart-valkey.shop.svc", 6379)
PRODUCT_CACHE = Store("redis", "1", "catalog-valkey.shop.svc", 6379)
PRODUCTS = Store("postgresql", "catalog", "catalog-pg.shop.svc", 5432)
SEARCH = Store("elasticsearch", "products", "search.shop.svc", 9200)

CATALOG_POOL = Pool("catalog-db", 20)

ORDERS = Topic("orders", each=("email", "orders process"), batch=("fraud", "orders process"))

TOPICS = {ORDERS.name: ORDERS}


_ADS = Call("ad", "GetAds", timeout_ms=300, required=False)
_RECOMMENDATIONS = Call("recommendation", "ListRecommendations", timeout_ms=500, required=False)
_PRODUCT = Call("catalog", "GetProduct")
_STOCK = Call("inventory", "GetStock")
_CART = Call("cart", "GetCart")
_PRICE = Call("currency", "Convert")
_QUOTE = Call("shipping", "POST /quote")
_VISITOR = ("app.user.id", "session.id", "app.user.guest")
_WEB = (*_VISITOR, "client.address", "user_agent.original", "http.request.header.accept-language")


FRONTEND = Service(
    "frontend",
    language="nodejs",
    runtime="nodejs 22.14.0",
    version="4.21.0",
    protocol="http",
    port=8080,
    replicas=2,
    operations=(
        Operation("GET /", Latency(3.0), (Parallel((Call("catalog", "ListProducts"), _ADS, _CART)),), tags=_WEB),
        Operation(
            "GET /product/{id}",
            Latency(3.5),
            (_PRODUCT, Parallel((_RECOMMENDATIONS, _PRICE, _STOCK))),
            tags=(*_WEB, "app.product.id", "url.path"),
        ),
        Operation(
            "GET /search",
            Latency(4.0),
            (Call("catalog", "SearchProducts"), _ADS),
            tags=(*_WEB, "app.search.query"),
        ),
        Operation("GET /cart", Latency(3.0), (_CART, Parallel((_PRICE, _QUOTE))), tags=_WEB),
        Operation(
            "POST /cart",
            Latency(2.5),
            (_PRODUCT, _STOCK, Call("cart", "AddItem", attempts=2)),
            tags=(*_WEB, "app.product.id", "app.product.quantity"),
        ),
        Operation(
            "GET /checkout/methods",
            Latency(2.0),
            (Call("payment", "ListMethods", timeout_ms=1000),),
            tags=_WEB,
        ),
        Operation(
            "POST /checkout",
            Latency(4.0),
            (Call("checkout", "PlaceOrder", timeout_ms=6000),),
            tags=(*_WEB, "app.currency", "app.cart.items"),
        ),
    ),
)

CATALOG = Service(
    "catalog",
    language="go",
    runtime="go 1.24.1",
    version="7.2.0",
    protocol="grpc",
    port=3550,
    replicas=2,
    operations=(
        Operation(
            "ListProducts",
            Latency(1.2),
            (
                Query(
                    PRODUCTS, "SELECT", "products", "SELECT * FROM products ORDER BY rank LIMIT 24", Latency(6.0, 0.5)
                ),
            ),
        ),
        Operation(
            "GetProduct",
            Latency(0.6),
            (
                Query(PRODUCT_CACHE, "GET", "product", "GET product:?", Latency(0.5), hit_rate=0.85),
                Query(
                    PRODUCTS, "SELECT", "products", "SELECT * FROM products WHERE id = $1", Latency(2.5), chance=0.15
                ),
            ),
            error_rate=0.0008,
            failure=Failure("*errors.errorString", "product row is not valid utf-8", "INTERNAL"),
            tags=("app.product.id",),
        ),
        Operation(
            "SearchProducts",
            Latency(1.5),
            (Query(SEARCH, "search", "products", '{"query":{"match":{"name":"?"}}}', Latency(18.0, 0.6)),),
            error_rate=0.002,
            failure=Failure("*elastic.Error", "all shards failed", "UNAVAILABLE"),
            tags=("app.search.query", "app.search.hits"),
        ),
    ),
    pool=CATALOG_POOL,
)

CART = Service(
    "cart",
    language="dotnet",
    runtime=".NET 9.0.2",
    version="1.17.5",
    protocol="grpc",
    port=7070,
    replicas=2,
    operations=(
        Operation(
            "GetCart",
            Latency(0.7),
            (Query(CARTS, "HGETALL", "cart", "HGETALL cart:?", Latency(0.6), hit_rate=0.93),),
            tags=("app.user.id", "app.cart.items"),
        ),
        Operation(
            "AddItem",
            Latency(0.8),
            (
                Query(CARTS, "HGET", "cart", "HGET cart:? item", Latency(0.5), hit_rate=0.3),
                Query(CARTS, "HSET", "cart", "HSET cart:? item ?", Latency(0.7)),
            ),
            error_rate=0.001,
            failure=Failure("StackExchange.Redis.RedisTimeoutException", "timeout performing HSET", "UNAVAILABLE"),
            tags=("app.user.id", "app.product.id", "app.product.quantity"),
        ),
        Operation(
            "EmptyCart", Latency(0.5), (Query(CARTS, "DEL", "cart", "DEL cart:?", Latency(0.5)),), tags=("app.user.id",)
        ),
    ),
)

CURRENCY = Service(
    "currency",
    "cpp",
    "gcc 14.2",
    "1.3.1",
    "grpc",
    7001,
    2,
    (Operation("Convert", Latency(0.25), tags=("app.currency", "app.currency.rate")),),
)

RECOMMENDATION = Service(
    "recommendation",
    language="python",
    runtime="CPython 3.12.9",
    version="2.6.0",
    protocol="grpc",
    port=9001,
    replicas=2,
    operations=(
        Operation(
            "ListRecommendations",
            Latency(5.0, 0.45),
            (Work("rank", Latency(4.0, 0.5)), _PRODUCT),
            error_rate=0.004,
            failure=Failure("ValueError", "embedding has wrong dimension", "INTERNAL"),
            tags=("app.product.id", "app.recommendation.ids", "app.recommendation.score"),
        ),
    ),
)

AD = Service(
    "ad",
    language="java",
    runtime="OpenJDK 17.0.14",
    version="3.3.7",
    protocol="grpc",
    port=9556,
    replicas=2,
    operations=(
        Operation(
            "GetAds",
            Latency(2.2, 0.5),
            error_rate=0.003,
            failure=Failure("java.util.concurrent.TimeoutException", "ad bidder did not answer", "UNAVAILABLE"),
            tags=("app.ads.keywords", "app.ads.count"),
        ),
    ),
)


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
