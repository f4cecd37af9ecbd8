"""The page of `dse explore`: sliders over the numbers of an accelerator, with its networks evaluated at once.

exploration     what is explored, and the results of a choice
page            the widgets and charts, by Panel and Bokeh; a choice as an accelerator description
"""
