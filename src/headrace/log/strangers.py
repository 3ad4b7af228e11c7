"""Why a broker and we do not get to know each other: looked into only once that has failed.

The client says the same of an expired certificate, an unknown one and one of another name. So we shake hands ourselves,
by the same files, and hear which it is.
"""

import socket
import ssl
from ssl import SSLCertVerificationError, SSLError

from headrace.errors import HeadraceError
from headrace.log.security import VARIABLE, Security, every_security, security_of

ANSWER_SECONDS = 1.0
SILENT = (
    "takes connections and answers no question. Wait if it is busy; if it asks who comes, or speaks no TLS, "
    "say so in a file, and name that by --broker-security FILE."
)
EXPIRED, NOT_YET, OTHER_NAME, OTHER_ADDRESS = (
    10,
    9,
    62,
    64,
)  # why a certificate is refused, as OpenSSL counts


class BrokerUnreachable(HeadraceError):
    """No broker answers at the address, or it is no use that one does."""

    def __init__(self, broker: str, why: str = "") -> None:
        super().__init__(
            f"The broker at {broker!r} {why}"
            if why
            else f"No Kafka broker answers at {broker!r}. "
            "Start it, or give the address of one that runs with --broker HOST:PORT."
        )
        self.broker = broker


class NotLetIn(BrokerUnreachable):
    """A broker that answers, and does not take us for whom we say we are."""


class NotTrusted(BrokerUnreachable):
    """A broker that answers, and that we do not take for whom we look for."""


def unreachable(broker: str, said: str) -> BrokerUnreachable:
    """Why we do not come in, given what the client said of it."""
    address = next((one for one in broker.split(",") if _answers(one)), None)
    if address is None:
        return BrokerUnreachable(broker)
    security = security_of(broker)
    if security is None:
        return NotLetIn(broker, _unsaid()) if _speaks_tls(address) else BrokerUnreachable(broker, SILENT)
    untrusted = _untrusted(address, security) if security.tls else None
    if untrusted is not None:
        return NotTrusted(address, f"is not trusted: {untrusted}")
    return NotLetIn(broker, _refused(security, said)) if said else BrokerUnreachable(broker, SILENT)


def _unsaid() -> str:
    named = ", ".join(sorted(address for one in every_security() for address in one.addresses))
    known = f"the file of {VARIABLE} speaks of {named} alone" if named else "nothing is said of who we are"
    return f"wants TLS, and {known}. Say it in a file, and name that by --broker-security FILE."


def _refused(security: Security, said: str) -> str:
    if "certificate" in said and security.mechanism is None:
        ours = f"does not take {security.certificate}" if security.certificate else "wants a certificate of ours"
        return f"{ours}. Name one that it trusts as certificate and key in {security.file}."
    return (
        f"does not let {security.who} in: wrong name, secret or mechanism. "
        f"Mend them in {security.file}, or what it names."
    )


def _untrusted(address: str, security: Security) -> str | None:
    """What is wrong with a broker's certificate, and what to do; None where nothing is."""
    host, port = _host_and_port(address)
    try:
        context = ssl.create_default_context(cafile=security.ca)
        if security.certificate is not None and security.key is not None:
            context.load_cert_chain(security.certificate, security.key, lambda: security.key_password)
        with (
            socket.create_connection((host, port), ANSWER_SECONDS) as plain,
            context.wrap_socket(plain, server_hostname=host),
        ):
            return None
    except SSLCertVerificationError as refused:
        return _sentence(refused.verify_code, refused.verify_message, host, security)
    except SSLError as error:
        if "CERT" in (error.reason or "") or "KEY" in (error.reason or ""):
            return f"{security.file} names files that are no pair, or no PEM ({error.reason}). Mend them."
        return f"it does not speak TLS ({error.reason}). Write tls = false in {security.file} if that is meant."
    except OSError:
        return None


def _sentence(code: int, message: str, host: str, security: Security) -> str:
    if code in (OTHER_NAME, OTHER_ADDRESS):
        return f"its certificate is for another name than {host!r}. Ask it by a name that its certificate has."
    if code in (EXPIRED, NOT_YET):
        return f"its certificate is out of date ({message}). Renew it there, or look at this machine's clock."
    ours = f"{security.ca}" if security.ca else "what this system trusts"
    return f"its certificate is not signed by {ours} ({message}). Name the right ca in {security.file}."


def _speaks_tls(address: str) -> bool:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # nothing is said there
    try:
        with socket.create_connection(_host_and_port(address), ANSWER_SECONDS) as plain, context.wrap_socket(plain):
            return True
    except OSError:
        return False


def is_listening(broker: str) -> bool:
    """Whether a connection is taken at one of a broker's addresses, whatever comes of it."""
    return any(map(_answers, broker.split(",")))


def _answers(address: str) -> bool:
    try:
        with socket.create_connection(_host_and_port(address), ANSWER_SECONDS):
            return True
    except (OSError, ValueError):
        return False


def _host_and_port(address: str) -> tuple[str, int]:
    host, _, port = address.strip().rpartition(":")
    return host.strip("[]"), int(port)
