"""Aggregate functions, one file each: types, and the computation on every path; partials merge in any order."""
