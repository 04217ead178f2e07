"""What users set about money: what storage, requests and machines cost them."""

from pydantic import Field

from neve.model.section import Section


class PricesConfig(Section):
    """What things cost, in dollars; the defaults are about those of S3 and of machines on demand."""

    put_per_1000: float = Field(0.005, ge=0, description="dollars for 1,000 requests that write an object")
    get_per_1000: float = Field(0.0004, ge=0, description="dollars for 1,000 requests that read an object")
    list_per_1000: float = Field(0.005, ge=0, description="dollars for 1,000 requests that list objects")
    compute_per_core_hour: float = Field(0.05, ge=0, description="dollars for one core, for an hour")
    storage_gb_month: float = Field(0.023, ge=0, description="dollars for a gigabyte that is kept for a month")
    scan_per_tb: float = Field(
        0.1, ge=0, description="dollars for a terabyte that a query reads; engines that bill by it take about 5"
    )
