"""Reports that people look at: one self-contained HTML file, or the same as Markdown."""

from npusim.report.html.operator import operator_page
from npusim.report.html.plan import plan_page

__all__ = ["operator_page", "plan_page"]
