"""Tables without lines, for people. Cells are shown as they are: nothing in them is markup."""

from rich.table import Table

__all__ = ["plain_table"]


def plain_table(*headings: str) -> Table:
    """An empty table with these columns."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for heading in headings:
        table.add_column(heading, overflow="fold")
    return table
