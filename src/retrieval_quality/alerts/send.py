"""Sending through apprise. The URLs are secrets: they are read here, used here, and told to nobody."""

import logging
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlencode

from retrieval_quality.alerts.messages import Message
from retrieval_quality.settings import ALERT_URLS, ALERT_URLS_BY_SEVERITY

RETRY_AFTER_SECONDS: Final = (1.0, 4.0)

_SCHEME: Final = re.compile(r"([a-z][a-z0-9+.-]{0,30})://", flags=re.IGNORECASE)
_HTTP_STATUS: Final = re.compile(r"\berror=([1-5]\d\d)\b")
_WEBHOOKS: Final = frozenset({"json", "jsons", "xml", "xmls", "form", "forms"})


@dataclass(frozen=True)
class Channel:
    """Where messages go: a name that may be shown, and a URL that may not."""

    name: str
    url: str = field(repr=False)


@dataclass(frozen=True)
class Outcome:
    """What became of a message: `error` is the kind of the last failure, None when it arrived."""

    n_attempts: int
    error: str | None


Deliver = Callable[[Channel, Message], str | None]


def channels_of(severity: str, environ: Mapping[str, str]) -> tuple[Channel, ...]:
    """The channels of a severity: those of its own variable if it is set, else the general ones.

    A channel is called by its scheme and its place among those of the same scheme: `slack:1`.
    """
    own = ALERT_URLS_BY_SEVERITY.get(severity)
    urls = ((environ.get(own) if own else None) or environ.get(ALERT_URLS) or "").split()
    names: dict[str, int] = {}
    channels = []
    for url in urls:
        scheme = _scheme(url)
        names[scheme] = names.get(scheme, 0) + 1
        channels.append(Channel(f"{scheme}:{names[scheme]}", url))
    return tuple(channels)


def send(channel: Channel, message: Message, *, deliver: Deliver, sleep: Callable[[float], None]) -> Outcome:
    """Deliver a message, with two more attempts. What fails is told by its kind alone."""
    error: str | None = None
    for attempt, pause in enumerate((*RETRY_AFTER_SECONDS, None), start=1):
        error = deliver(channel, message)
        if error is None or error == UNUSABLE or pause is None:
            return Outcome(attempt, error)
        sleep(pause)
    return Outcome(len(RETRY_AFTER_SECONDS) + 1, error)


UNUSABLE: Final = "unusable_url"


def deliver_by_apprise(channel: Channel, message: Message) -> str | None:
    """One attempt; None when it arrived, else the kind of failure: `http_500`, `not_delivered`,
    `unusable_url`, or the name of an exception. Whatever libraries log meanwhile goes nowhere.
    """
    with _silence() as heard:
        import apprise

        try:
            service = apprise.Apprise.instantiate(_addressed(channel.url, message), suppress_exceptions=True)
            if service is None:
                return UNUSABLE
            sender = apprise.Apprise()
            sender.add(service)
            has_arrived = sender.notify(
                title=message.title,
                body=message.body,
                notify_type=_notify_type(message),
                body_format=apprise.NotifyFormat.TEXT,
            )
        except Exception as error:  # its text may hold the URL
            return type(error).__name__
    if has_arrived:
        return None
    statuses = [found[1] for line in heard if (found := _HTTP_STATUS.search(line))]
    return f"http_{statuses[-1]}" if statuses else "not_delivered"


def _notify_type(message: Message) -> str:
    if message.action == "resolve":
        return "success"
    if message.action == "update":
        return "info"
    return "warning" if message.severity == "ticket" else "failure"


def _addressed(url: str, message: Message) -> str:
    """The URL with the de-duplication key where the service has a place for it."""
    scheme = _scheme(url)
    if scheme == "pagerduty":
        told = {"dedup": message.dedup_key, "action": "map"}
    elif scheme in _WEBHOOKS:
        told = {
            ":dedup_key": message.dedup_key,
            ":action": message.action,
            ":severity": message.severity,
            ":slo_id": message.slo_id,
            ":alert_ids": " ".join(alert.alert_id for alert in message.alerts),
        }
    else:
        return url
    return f"{url}{'&' if '?' in url else '?'}{urlencode(told)}"


def _scheme(url: str) -> str:
    found = _SCHEME.match(url)
    return found[1].lower() if found else "unknown"


@contextmanager
def _silence() -> Iterator[list[str]]:
    """What apprise says goes into a list and nowhere else; the libraries below it say nothing."""
    heard: list[str] = []
    loggers = {name: logging.getLogger(name) for name in ("apprise", "urllib3", "requests", "asyncio")}
    before = {name: (logger.level, logger.propagate, logger.handlers) for name, logger in loggers.items()}
    disabled_before = logging.root.manager.disable
    for logger in loggers.values():
        logger.propagate = False
        logger.handlers = [logging.NullHandler()]
    loggers["apprise"].handlers = [_Listener(heard)]
    loggers["apprise"].setLevel(logging.WARNING)
    logging.disable(max(disabled_before if disabled_before < logging.CRITICAL else 0, logging.INFO))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield heard
    finally:
        logging.disable(disabled_before)
        for name, (level, propagate, handlers) in before.items():
            loggers[name].propagate = propagate
            loggers[name].handlers = handlers
            loggers[name].setLevel(level)


class _Listener(logging.Handler):
    def __init__(self, heard: list[str]) -> None:
        super().__init__()
        self.heard = heard

    def emit(self, record: logging.LogRecord) -> None:
        self.heard.append(record.getMessage())
