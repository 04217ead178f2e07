"""Policies of the settings: where they are kept, and what those who tend the lake make of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neve.work.defaults import built_in
from neve.work.policy_files import gathered
from neve.work.policy_store import PolicyStore

if TYPE_CHECKING:
    from neve.app.settings import Settings
    from neve.compact.budgets import OrganizationBudget
    from neve.lake.documents import Documents
    from neve.work.policies import Policies


def build_policy_store(settings: Settings, documents: Documents) -> PolicyStore:
    """The policies of a lake; raises `ConfigError` for a file that is wrong."""
    return PolicyStore(documents, given_policies(settings))


def given_policies(settings: Settings) -> Policies:
    """The policies that the settings and the files of their folder have; raises `ConfigError` for what is wrong."""
    # The autopilot runs by itself where somebody has set it up.
    hour = settings.autopilot.start_hour if "autopilot" in settings.model_fields_set else None
    return gathered(settings.policies, settings.policies_folder, built_in(hour))


def compact_budgets(policies: Policies) -> tuple[OrganizationBudget, ...]:
    """What compaction may spend for organizations."""
    from neve.compact.budgets import OrganizationBudget  # noqa: PLC0415 - only for those who compact

    return tuple(
        OrganizationBudget(one.organization, one.dollars_per_day, one.bytes_per_day) for one in policies.budgets()
    )
