"""Figures: a trace or a result in, a plotly figure and the sentence that says what it shows out."""
