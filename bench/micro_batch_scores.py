"""python -m bench.micro_batch_scores BROKER MODEL FOLDER [PORT]: clean events scored in Spark's micro-batches.

The alternative to a scorer: the query reads the clean topic in micro-batches, and scores each with the same ONNX model
in a pandas UDF. With the port of a server it requests the features of a batch's cards there; without, the model gets
the event's amount and nulls, which is less work.
"""

import os
import sys
from collections.abc import Callable
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import orjson
import pandas as pd
from numpy.typing import NDArray
from pyspark.sql import functions as F

import headrace as hr
from bench.app import CardSpend, payments
from headrace.embedded_servers.jars import jar_paths
from headrace.embedded_servers.java import find_java
from headrace.embedded_servers.ports import HOST
from headrace.kafka.topics import ensure_topics
from headrace.server.features.entity_keys import MAX_KEYS
from headrace.spark.session.session import SparkSessionConfig, start_session

SCORES = hr.Stream(
    "micro-batch-scores",
    schema="event_id string, event_time_us bigint, score double, at timestamp",
    id="event_id",
    key="event_id",
    time="at",
)
TOPIC = SCORES.name
SLOTS = 2
NAMES, PATH = tuple(CardSpend.names), f"/features/{CardSpend.name}"  # what goes to Python workers is plain

Look = Callable[[pd.Series], NDArray[np.float32]]


def main(broker: str, model: str, folder: str, port: str = "") -> None:
    """Score until the process is ended."""
    ensure_topics(broker, [SCORES])
    os.environ["JAVA_HOME"] = str(find_java().home)
    spark = start_session(SparkSessionConfig(None, SLOTS, jar_paths("spark"), Path(folder) / "spark"))
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", MAX_KEYS)
    kafka = {"kafka.bootstrap.servers": broker}
    clean = spark.readStream.format("kafka").options(**kafka, subscribe=payments.clean).load()
    fields = "payment_id string, card string, amount double, at timestamp"
    event = F.from_json(F.col("value").cast("string"), fields).alias("event")
    look = _no_features if not port else _Features(int(port))
    score = F.pandas_udf(_scorer(Path(model).read_bytes(), look), "double")
    scored = clean.select(event).select(
        F.to_json(
            F.struct(
                F.col("event.payment_id").alias("event_id"),
                F.unix_micros("event.at").alias("event_time_us"),
                score("event.card", "event.amount").alias("score"),
            )
        ).alias("value")
    )
    query = scored.writeStream.format("kafka").options(**kafka, topic=TOPIC)
    query.option("checkpointLocation", str(Path(folder) / "checkpoint")).start().awaitTermination()


def _no_features(cards: pd.Series) -> NDArray[np.float32]:
    return np.full((len(cards), len(NAMES)), np.nan, np.float32)


class _Features:
    """Requests the features of cards from a server, each once, over a Python worker's persistent connection."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._connection: HTTPConnection | None = None

    def __call__(self, cards: pd.Series) -> NDArray[np.float32]:
        if cards.empty:
            return _no_features(cards)
        places, asked = pd.factorize(cards)
        return np.array(list(map(_row, self._asked(list(asked)))), np.float32)[places]

    def _asked(self, cards: list[str]) -> list[dict[str, Any]]:
        self._connection = self._connection or HTTPConnection(HOST, self._port, timeout=10)
        self._connection.request("POST", PATH, orjson.dumps({"keys": cards}))
        answer = self._connection.getresponse()
        body = answer.read()
        if answer.status != 200:
            raise ValueError(f"The server answered {answer.status}: {body[:300].decode(errors='replace')}")
        return [row["values"] for row in orjson.loads(body)["rows"]]


def _row(values: dict[str, Any]) -> list[float]:
    return [np.nan if values[name] is None else values[name] for name in NAMES]


def _scorer(content: bytes, look: Look):  # type: ignore[no-untyped-def]  # Spark reads the types of the inner one
    sessions: list[onnxruntime.InferenceSession] = []

    def score(cards: pd.Series, amounts: pd.Series) -> pd.Series:
        if not sessions:
            sessions.append(onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"]))
        rows = np.column_stack([look(cards), amounts.to_numpy(np.float32)])
        return pd.Series(sessions[0].run(["probabilities"], {"features": rows})[0][:, 1].astype(np.float64))

    return score


if __name__ == "__main__":
    main(*sys.argv[1:])
