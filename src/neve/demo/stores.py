"""The shop's stores, pools and topics: what stands behind its services."""

from __future__ import annotations

from neve.demo.topology import Pool, Store, Topic

CARTS = Store("redis", "0", "cart-valkey.shop.svc", 6379)
FEATURES = Store("redis", "3", "features-valkey.shop.svc", 6379)
PRODUCT_CACHE = Store("redis", "1", "catalog-valkey.shop.svc", 6379)
PRODUCTS = Store("postgresql", "catalog", "catalog-pg.shop.svc", 5432)
SEARCH = Store("elasticsearch", "products", "search.shop.svc", 9200)
PAYMENTS = Store("postgresql", "payments", "payments-pg.shop.svc", 5432)
STOCK = Store("mysql", "inventory", "inventory-mysql.shop.svc", 3306)
PARCELS = Store("mongodb", "shipping", "shipping-mongo.shop.svc", 27017)

CATALOG_POOL = Pool("catalog-db", 20)
PAYMENT_POOL = Pool("HikariPool-1", 10)
INVENTORY_POOL = Pool("inventory-pool", 16)

ORDERS = Topic("orders", each=("email", "orders process"), batch=("fraud", "orders process"))

TOPICS = {ORDERS.name: ORDERS}
