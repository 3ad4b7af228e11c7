"""The load of the demo: steady payments, their delayed verdicts, and probes that measure when a payment is readable."""

import contextlib
import heapq
import threading
import time
from datetime import UTC, datetime

from app import CardSpend
from payments import Timeline, Verdict, attack_of

import headrace as hr
from headrace.kafka.producer.producer import Producer

TOPIC, LABELS = "payments", "chargebacks"
PROBE_PAUSE_SECONDS = 0.25
QUICKEST_POLL_SECONDS, POLL_SHARE = 0.001, 0.05
PROBE_LIMIT_SECONDS = 30.0


class Load(threading.Thread):
    """Produces a timeline's payments and their delayed verdicts, each at its time."""

    def __init__(self, producer: Producer, timeline: Timeline) -> None:
        super().__init__(name="load")
        self.timeline = timeline
        self.produced = 0
        self.told = 0
        self.attacked: list[str] = []
        self._verdicts: list[Verdict] = []  # a heap of verdicts that are not sent yet
        self._producer = producer
        self._stopped = threading.Event()

    def run(self) -> None:
        while not self._stopped.wait(self._until_next()):
            event = self.timeline.event(self.produced)
            self._producer.send(TOPIC, event.value, key=event.key)
            self._note_attack()
            for verdict in self.timeline.verdicts(self.produced):
                heapq.heappush(self._verdicts, verdict)
            self._tell(event.moment_us)
            self.produced += 1

    def _tell(self, now_us: int) -> None:
        """Send the verdicts that are due."""
        while self._verdicts and self._verdicts[0].moment_us <= now_us:
            verdict = heapq.heappop(self._verdicts)
            self._producer.send(LABELS, verdict.value, key=verdict.payment_id)
            self.told += 1

    def stop(self) -> None:
        self._stopped.set()
        self.join()

    def _until_next(self) -> float:
        return max(0.0, self.timeline.moment_us(self.produced) / 1e6 - time.time())

    def _note_attack(self) -> None:
        attack = attack_of(self.timeline.seed, self.produced)
        if attack is not None and attack["card"] not in self.attacked[-1:]:
            self.attacked.append(str(attack["card"]))


class Probes(threading.Thread):
    """Pays with its own card a few times a second, and reads the card's features until they include the payment."""

    def __init__(self, producer: Producer, client: hr.Client, card: str) -> None:
        super().__init__(name="probes")
        self.card = card
        self.sent = 0
        self.lost = 0
        self.values_read = 0
        self._delays: list[tuple[float, float]] = []
        self._producer, self._client = producer, client
        self._stopped = threading.Event()

    def run(self) -> None:
        while not self._stopped.wait(PROBE_PAUSE_SECONDS):
            sent_at = time.monotonic()
            self._send()
            if self._readable(sent_at):
                self._delays.append((sent_at, time.monotonic() - sent_at))
            elif not self._stopped.is_set():
                self.lost += 1

    def delays(self, since: float = 0.0) -> list[float]:
        """The delay from producer to readable of each probe sent since `since`."""
        return [delay for sent_at, delay in self._delays.copy() if sent_at >= since]

    def stop(self) -> None:
        self._stopped.set()
        self.join()

    def _send(self) -> None:
        fields = {
            "payment_id": f"{self.card}-{self.sent}",
            "card": self.card,
            "merchant": "m0",
            "country": "FR",
            "amount": 1.0,
            "at": datetime.now(UTC),
        }
        self._producer.send(TOPIC, fields, key=self.card)
        self.sent += 1

    def _readable(self, sent_at: float) -> bool:
        """Whether the last probe is readable within the limit; polls less often the longer it takes."""
        while (waited := time.monotonic() - sent_at) < PROBE_LIMIT_SECONDS and not self._stopped.is_set():
            with contextlib.suppress(hr.HeadraceError):
                [row] = self._client.features(CardSpend, [self.card])
                self.values_read += len(row.values)
                if row.payments_7d >= self.sent:
                    return True
            time.sleep(max(QUICKEST_POLL_SECONDS, POLL_SHARE * waited))
        return False
