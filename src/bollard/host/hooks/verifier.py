"""How a sender proves that a request is its own: the verifier of a webhook route, as it is saved. Pure."""

from collections.abc import Mapping
from typing import Annotated, Final, Literal, Self

import msgspec
from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from bollard.host.channels.signing import SECRET_PREFIX, secret_bytes
from bollard.host.hooks.limits import HOOK_SECRET_MIN, HOOK_TOLERANCE_MAX_S, HOOK_TOLERANCE_S
from bollard.protocol import Int, Strict

Kind = Literal["standard", "github", "gitlab", "stripe", "slack", "hmac", "bearer", "basic", "mtls"]
HeaderName = Annotated[str, Field(pattern=r"^[A-Za-z0-9!#$%&'*+.^_`|~-]+$", max_length=64)]
AUTHORIZATION: Final = "authorization"
BEARER: Final = "Bearer "
STRIPE: Final = "stripe-signature"
GITLAB_TOKEN: Final = "x-gitlab-token"  # noqa: S105 -- the name of a header
_BODY: Final = "{body}"
_TIME: Final = "{timestamp}"
_OPTIONS: Final[Mapping[Kind, frozenset[str]]] = {
    "standard": frozenset(),
    "github": frozenset(),
    "gitlab": frozenset(),
    "stripe": frozenset({"tolerance_s"}),
    "slack": frozenset({"tolerance_s"}),
    "hmac": frozenset({"header", "prefix", "encoding", "algorithm", "timestamp_header", "signed", "tolerance_s"}),
    "bearer": frozenset({"header", "prefix"}),
    "basic": frozenset({"username"}),
    "mtls": frozenset({"header", "value"}),
}
_NEEDED: Final[Mapping[str, tuple[str, ...]]] = {
    "hmac": ("header",),
    "basic": ("username",),
    "mtls": ("header", "value"),
}


class Verifier(Strict):
    """How the requests of a route are verified. Fields of other kinds are refused."""

    kind: Kind
    header: HeaderName | None = Field(default=None, description="The header with the signature, token or certificate.")
    prefix: Annotated[str, Field(max_length=64)] | None = Field(default=None, description="Text before the signature.")
    encoding: Literal["hex", "base64"] | None = Field(default=None, description="Of an HMAC; otherwise `hex`.")
    algorithm: Literal["sha1", "sha256", "sha512"] | None = Field(
        default=None, description="Of an HMAC; otherwise `sha256`."
    )
    timestamp_header: HeaderName | None = Field(default=None, description="The header with the seconds of the epoch.")
    signed: Annotated[str, Field(max_length=256)] | None = Field(
        default=None, description="What an HMAC covers, with `{body}` and `{timestamp}`; otherwise `{body}`."
    )
    tolerance_s: Annotated[Int, Field(ge=1, le=HOOK_TOLERANCE_MAX_S)] | None = Field(
        default=None, description=f"Distance of a signed time from now; otherwise {HOOK_TOLERANCE_S}."
    )
    username: Annotated[str, Field(min_length=1, max_length=256, pattern="^[^:]*$")] | None = Field(
        default=None, description="The user of basic authentication; the secret is the password."
    )
    value: Annotated[str, Field(min_length=1, max_length=1024)] | None = Field(
        default=None, description="What the header of the proxy says of the right certificate."
    )

    @model_validator(mode="after")
    def _fits_its_kind(self) -> Self:
        given = {name for name in self.model_fields_set - {"kind"} if getattr(self, name) is not None}
        if unknown := sorted(given - _OPTIONS[self.kind]):
            shown = {"name": unknown[0], "kind": self.kind}
            raise PydanticCustomError("verifier_field", "has {name}, which the verifier {kind} does not use", shown)
        if missing := [name for name in _NEEDED.get(self.kind, ()) if name not in given]:
            shown = {"name": missing[0], "kind": self.kind}
            raise PydanticCustomError("verifier_needs", "needs {name} for the verifier {kind}", shown)
        if self.kind == "hmac":
            signed = self.signed or _BODY
            if signed.count(_BODY) != 1 or (_TIME in signed) != (self.timestamp_header is not None):
                raise PydanticCustomError(
                    "verifier_signed",
                    "needs signed with {body} once, and with {timestamp} if there is a timestamp_header, else without",
                )
        return self

    @property
    def has_secret(self) -> bool:
        return self.kind != "mtls"

    @property
    def is_made_by_sender(self) -> bool:
        """Whether the sender generates the secret, so that the host cannot."""
        return self.kind in ("stripe", "slack")

    @property
    def token_header(self) -> str:
        """The header of a token or a certificate."""
        return (self.header or AUTHORIZATION).lower()

    @property
    def token_prefix(self) -> str:
        """Text before a token."""
        return self.prefix if self.prefix is not None else BEARER if self.token_header == AUTHORIZATION else ""

    @property
    def scheme(self) -> "HmacScheme | None":
        """The HMAC in one header, for the kinds that have one."""
        match self.kind:
            case "github":
                return _GITHUB
            case "slack":
                return _SLACK
            case "hmac":
                return HmacScheme(
                    header=(self.header or "").lower(),
                    prefix=self.prefix or "",
                    encoding=self.encoding or "hex",
                    algorithm=self.algorithm or "sha256",
                    timestamp=None if self.timestamp_header is None else self.timestamp_header.lower(),
                    signed=self.signed or _BODY,
                )
            case _:
                return None

    def is_standard(self, secret: str) -> bool:
        """Whether requests are signed as in Standard Webhooks. GitLab does that for a signing token (`whsec_…`), which
        is never accepted as a plain token: that would be a way around the signature."""
        return self.kind == "standard" or (self.kind == "gitlab" and secret.startswith(SECRET_PREFIX))

    def key(self, secret: str) -> bytes:
        """The key of signatures."""
        return secret_bytes(secret) if self.is_standard(secret) else secret.encode()

    def check_secret(self, secret: str) -> None:
        """Raises `ValueError` for a secret that this verifier cannot use."""
        if self.is_standard(secret):
            secret_bytes(secret)
        elif len(secret) < HOOK_SECRET_MIN:
            raise ValueError(f"a secret has at least {HOOK_SECRET_MIN} characters")
        elif not (secret.isascii() and secret.isprintable()) or secret != secret.strip():
            raise ValueError("a secret has printable ASCII characters, and no space at its ends")


class HmacScheme(msgspec.Struct, frozen=True, kw_only=True):
    """An HMAC in one header."""

    header: str
    prefix: str = ""
    encoding: Literal["hex", "base64"] = "hex"
    algorithm: Literal["sha1", "sha256", "sha512"] = "sha256"
    timestamp: str | None = None
    """The header with the signed time."""
    signed: str = _BODY

    def around(self, stamp: str) -> tuple[bytes, bytes]:
        """What is signed before and after the body."""
        before, _, after = self.signed.replace(_TIME, stamp).partition(_BODY)
        return before.encode(), after.encode()


_GITHUB: Final = HmacScheme(header="x-hub-signature-256", prefix="sha256=")
_SLACK: Final = HmacScheme(
    header="x-slack-signature", prefix="v0=", timestamp="x-slack-request-timestamp", signed="v0:{timestamp}:{body}"
)
