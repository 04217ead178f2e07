"""What users set about proposals: where specs are kept, who approves, and what needs nobody."""

from typing import Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, field_validator, model_validator

from neve.autopilot.propose.proposal import LayoutKind
from neve.model.section import Section

ForgeKind = Literal["local", "github", "gitlab"]
API = {"github": "https://api.github.com", "gitlab": "https://gitlab.com/api/v4"}
LOOPBACK = ("127.0.0.1", "::1", "localhost")


class AutoMergeConfig(Section):
    """What may be merged without a person; all bounds hold together."""

    enabled: bool = Field(False, description="merge proposals that are within all of these bounds without an approval")
    kinds: tuple[LayoutKind, ...] = Field(
        ("sort", "zorder", "bloom", "file_size"), description="kinds of change that need no person"
    )
    largest_table_bytes: int = Field(100 * 1024**3, ge=0, description="largest table that needs no person; 100 GB")
    least_reduction_pct: float = Field(
        40, ge=0, le=100, description="least reduction of scanned bytes, by the lower bound of estimate and canary"
    )
    most_dollars: float = Field(5, ge=0, description="most that the rewrite may cost, in dollars")
    from_hour: int = Field(0, ge=0, le=23, description="first hour of the day, UTC")
    to_hour: int = Field(24, ge=0, le=24, description="hour of the day, UTC, that is too late; may be after midnight")


class ProposeConfig(Section):
    """Where table specs are kept, and how changes of them are proposed and approved."""

    forge: ForgeKind = Field("local", description="local: a git repository; github or gitlab: through its API")
    repository: str = Field(
        "lake/specs",
        min_length=1,
        description="folder of a local repository, made where there is none; owner/name of GitHub's, path of GitLab's",
    )
    url: str = Field("", description="address of the API; empty for the public GitHub or GitLab")
    token: SecretStr = Field(SecretStr(""), description="token that may write to the repository and its pull requests")
    default_branch: str = Field(
        "", description="branch that approves what is merged; empty: the forge's default, main or master of a local one"
    )
    folder: str = Field("tables", description="folder of the specs in the repository")
    remote: str = Field("", description="local: remote to fetch from and push to; empty: nothing leaves the machine")
    patches: str = Field("", description="local: folder of the patch files; empty: neve/ in the git directory")
    author_name: str = Field("Neve autopilot", min_length=1, description="author of the commits")
    author_email: str = Field("autopilot@neve.invalid", min_length=1, description="the author's address")
    approvals: int = Field(
        1, ge=0, description="reviews that approve a pull request before it is merged; 0: only a merge approves"
    )
    allow_literals: bool = Field(False, description="show queries with their values in proposals")
    timeout_seconds: float = Field(30, gt=0, le=600, description="how long one request or git command may take")
    retry_seconds: float = Field(120, ge=0, le=7200, description="how long a forge that is away or busy is asked again")
    ca_file: str = Field("", description="PEM file of the certificates that are trusted; empty for the system's")
    auto_merge: AutoMergeConfig = Field(AutoMergeConfig(), description="what may be merged without a person")

    @field_validator("url")
    @classmethod
    def _is_safe_address(cls, value: str) -> str:
        if not value:
            return value
        parts = urlsplit(value)
        if parts.username or parts.password or parts.query or parts.fragment:
            raise ValueError("should have no user, password or query; the token has a key of its own")
        # A token is never sent in the clear, but to a proxy on this machine.
        if parts.hostname and (parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in LOOPBACK)):
            return value.rstrip("/")
        raise ValueError("should be https://host with the path of the API")

    @field_validator("folder")
    @classmethod
    def _is_inside(cls, value: str) -> str:
        parts = value.split("/")
        if value and (any(part in ("", ".", "..") for part in parts) or ".git" in map(str.lower, parts)):
            raise ValueError("should be a path within the repository, such as tables or lake/tables")
        return value

    @field_validator("author_name", "author_email", "default_branch", "remote")
    @classmethod
    def _is_one_line(cls, value: str) -> str:
        if not value.isprintable() or "<" in value or ">" in value or value.startswith("-"):
            raise ValueError("should be one line without < and >, and not begin with -")
        return value

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.forge == "local":
            return self
        if not self.token.get_secret_value():
            raise ValueError(f"should have a token, which the forge {self.forge} needs")
        names = self.repository.split("/")
        if len(names) < 2 or not all(names) or (self.forge == "github" and len(names) != 2):
            raise ValueError(f"should have a repository such as owner/name, got {self.repository!r}")
        return self

    @property
    def api(self) -> str:
        """The address of the forge's API."""
        return self.url or API.get(self.forge, "")
