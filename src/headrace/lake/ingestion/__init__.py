"""Landing the topics of an app in the tables of its lake."""
