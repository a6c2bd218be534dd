"""Functions from the tables of a recording to the tables of a report."""
