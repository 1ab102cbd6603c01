"""The services by name."""

from __future__ import annotations

from collector.host.notify.services import (
    apprise,
    dingtalk,
    discord,
    feishu,
    generic,
    google_chat,
    mattermost,
    slack,
    teams,
    wecom,
)
from collector.host.notify.services.service import Service

SERVICES: dict[str, Service] = {
    service.name: service
    for service in (
        generic.SERVICE,
        slack.SERVICE,
        discord.SERVICE,
        teams.SERVICE,
        mattermost.SERVICE,
        google_chat.SERVICE,
        feishu.FEISHU,
        feishu.LARK,
        dingtalk.SERVICE,
        wecom.SERVICE,
        apprise.SERVICE,
    )
}
