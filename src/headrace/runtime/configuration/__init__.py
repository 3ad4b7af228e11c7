"""The settings of Headrace: one table, and everything that is derived from it.

settings_table ──▶ click_options     flags and HEADRACE_* variables
               ──▶ settings_file     the keys of headrace.toml
               ──▶ settings_parser   flags ──▶ Settings
               ──▶ part_handover     Settings ──▶ flags and environment of the processes of parts
               ──▶ reference_page    docs/settings.md
"""
