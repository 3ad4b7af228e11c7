"""Joins the predictions of an app's models with their labels, beside the lake and in its Spark session."""

from pyspark.sql import SparkSession

from headrace.declare.app import App
from headrace.evaluate.by_lake import RECORDS_A_ROUND, LakeJoin
from headrace.evaluate.by_stream import StreamJoin
from headrace.evaluate.join import Join, Place
from headrace.evaluate.lasting import Together, make_each
from headrace.evaluate.told import Feed
from headrace.lake.care import Care, Caretaker
from headrace.log.produce import Producer


class Outcomes(Together):
    """The joins of every model that has labels."""

    def __init__(self, spark: SparkSession, app: App, place: Place) -> None:
        judged = [model for model in app.models if model.labels is not None]
        joins = make_each(judged, lambda model: join_of(spark, Feed(model, place.lake.broker), place))
        folders = [folder for join in joins for folder in join.book.folders]
        super().__init__(joins, Caretaker(folders, Care(place.lake.retention), Producer(place.lake.broker)))


def join_of(spark: SparkSession, feed: Feed, place: Place) -> Join:
    """The join of a model: in the stream, or through the lake where labels may take longer than a day."""
    if feed.declared.through_lake:
        return LakeJoin(spark, Feed(feed.model, feed.broker, RECORDS_A_ROUND), place)
    return StreamJoin(spark, feed, place)
