"""python -m bench.micro_batch_scores BROKER MODEL FOLDER: clean events scored by a pandas UDF in Spark's micro-batches.

What one writes without a scorer: the query reads the clean topic as fast as micro-batches go and hands each to the same
ONNX. It reads no features: the model gets the event's amount and nulls. So this lane does less.
"""

import os
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import pandas as pd
from pyspark.sql import functions as F

import headrace as hr
from bench.app import CardSpend, payments
from headrace.local.jars import jar_paths
from headrace.local.java import find_java
from headrace.log.topics import ensure_topics
from headrace.stream.session import SparkPlace, start_session

SCORES = hr.Stream(
    "micro-batch-scores",
    schema="event_id string, event_time_us bigint, score double, at timestamp",
    id="event_id",
    key="event_id",
    time="at",
)
TOPIC = SCORES.name
SLOTS = 2


def main(broker: str, model: str, folder: str) -> None:
    """Score until the process is ended."""
    ensure_topics(broker, [SCORES])
    os.environ["JAVA_HOME"] = str(find_java().home)
    spark = start_session(SparkPlace(None, SLOTS, jar_paths("spark"), Path(folder) / "spark"))
    kafka = {"kafka.bootstrap.servers": broker}
    clean = spark.readStream.format("kafka").options(**kafka, subscribe=payments.clean).load()
    event = F.from_json(F.col("value").cast("string"), "payment_id string, amount double, at timestamp").alias("event")
    score = F.pandas_udf(_scorer(Path(model).read_bytes()), "double")
    scored = clean.select(event).select(
        F.to_json(
            F.struct(
                F.col("event.payment_id").alias("event_id"),
                F.unix_micros("event.at").alias("event_time_us"),
                score("event.amount").alias("score"),
            )
        ).alias("value")
    )
    query = scored.writeStream.format("kafka").options(**kafka, topic=TOPIC)
    query.option("checkpointLocation", str(Path(folder) / "checkpoint")).start().awaitTermination()


def _scorer(content: bytes):  # type: ignore[no-untyped-def]  # Spark reads the types of the inner one
    width = len(CardSpend.names) + 1
    sessions: list[onnxruntime.InferenceSession] = []

    def score(amounts: pd.Series) -> pd.Series:
        if not sessions:
            sessions.append(onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"]))
        rows = np.full((len(amounts), width), np.nan, np.float32)
        rows[:, -1] = amounts
        return pd.Series(sessions[0].run(["probabilities"], {"features": rows})[0][:, 1].astype(np.float64))

    return score


if __name__ == "__main__":
    main(*sys.argv[1:])
