"""Joins the predictions of an app's models with their labels, beside the lake and in its Spark session."""

from functools import partial

from pyspark.sql import SparkSession

from headrace.declare.app import App
from headrace.declare.model import Model
from headrace.declare.names import query_name
from headrace.evaluate.by_lake import RECORDS_A_ROUND, LakeJoin
from headrace.evaluate.by_stream import StreamJoin
from headrace.evaluate.evaluations import Setup
from headrace.evaluate.join import Join, Place, outcomes_not_set_up
from headrace.evaluate.lasting import Together
from headrace.evaluate.told import Feed
from headrace.lake.care import Care, Caretaker
from headrace.log.produce import Producer


def outcome_setups(spark: SparkSession, app: App, place: Place) -> list[Setup]:
    """How the outcomes of each model that has labels are joined."""
    return [
        Setup(
            query_name(model.name, "outcomes"),
            partial(_make_join, spark, model, place),
            partial(outcomes_not_set_up, model),
        )
        for model in app.models
        if model.labels is not None
    ]


def _make_join(spark: SparkSession, model: Model, place: Place) -> Together:
    join = join_of(spark, Feed(model, place.lake.broker), place)
    care = Caretaker(join.book.folders, Care(place.lake.retention), Producer(place.lake.broker))
    return Together([join], care)


def join_of(spark: SparkSession, feed: Feed, place: Place) -> Join:
    """The join of a model: in the stream, or through the lake where labels may take longer than a day."""
    if feed.declared.through_lake:
        return LakeJoin(spark, Feed(feed.model, feed.broker, RECORDS_A_ROUND), place)
    return StreamJoin(spark, feed, place)
