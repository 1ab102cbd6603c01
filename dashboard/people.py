"""Who looks: signed in by OpenID Connect where that is configured, else whoever reaches the page.

Roles: a viewer reads, a triager may also say something of a finding. Without sign-in the page listens on this machine
only, and everyone who reaches it is a triager who gives a name. With sign-in the triagers are those of
`KERNEL_OBSERVATORY_TRIAGERS` (addresses, or `*@domain`, separated by commas); everyone else is a viewer.
"""

from __future__ import annotations

import os
from fnmatch import fnmatchcase

import streamlit as st

TRIAGERS_VARIABLE = "KERNEL_OBSERVATORY_TRIAGERS"
NAME_KEY = "triager-name"


def sign_in_configured() -> bool:
    """Whether secrets.toml has an [auth] section."""
    try:
        return "auth" in st.secrets
    except (FileNotFoundError, KeyError):
        return False
    except Exception:  # Streamlit raises its own type where there is no secrets file, which is no error here
        return False


def signed_in_address() -> str | None:
    """The address of who is signed in."""
    if not sign_in_configured() or not st.user.is_logged_in:
        return None
    address = st.user.get("email")
    return str(address) if address else None


def may_triage(address: str | None, *, configured: bool, triagers: str) -> bool:
    """Whether who has `address` may write: anyone where no sign-in is configured, else those that are named."""
    if not configured:
        return True
    if address is None:
        return False
    patterns = [pattern.strip().lower() for pattern in triagers.split(",") if pattern.strip()]
    return any(fnmatchcase(address.lower(), pattern) for pattern in patterns)


def is_triager() -> bool:
    triagers = os.environ.get(TRIAGERS_VARIABLE, "")
    return may_triage(signed_in_address(), configured=sign_in_configured(), triagers=triagers)


def require_sign_in() -> bool:
    """Draws the sign-in button where one is needed; whether the page may go on."""
    if not sign_in_configured() or st.user.is_logged_in:
        return True
    st.button("Sign in", on_click=st.login)
    return False


def author() -> str:
    """Who an act is written down for: the address of who is signed in, else the name that was given."""
    return signed_in_address() or str(st.session_state.get(NAME_KEY, "")).strip()


def ask_name() -> None:
    """Asks for a name where nobody signs in; it is kept for the session."""
    if signed_in_address() is None:
        st.text_input(
            "Your name",
            key=NAME_KEY,
            max_chars=60,
            persist_state="session",
            placeholder="written beside what you say",
            width=320,
        )
