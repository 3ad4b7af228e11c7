"""The benchmark: `make bench`, or one section alone with `python -m bench serve`."""
