"""Ingests the topics of an app into the tables of its lake."""
