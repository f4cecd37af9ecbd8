"""How a workload and a variant are shown: one line at a prompt, a small table in a notebook."""

import dse
from dse.base.table_format import html_table


def test_a_workload_is_shown_with_its_layers_and_variants(net):
    assert repr(net) == "Workload(net: 5 layers, 4 variants)"
    assert repr(dse.load_workload("gpt2", sequence=64)).startswith("Workload(gpt2 (sequence=64): ")


def test_a_variant_is_shown_with_pattern_sparsity_and_accuracy(net):
    assert repr(net.variant("semi")) == "Variant(net: semi 2:4, sparsity 0.4999, accuracy 75.5, 5 layers)"
    assert repr(net.variant("blocky")).endswith("no accuracy, 5 layers)")
    assert repr(net.dense) == "Variant(net: dense dense, sparsity 0, accuracy 76, 5 layers)"


def test_the_table_of_a_workload_has_a_row_for_each_method_and_pattern(net):
    table = net._repr_html_()
    assert table.startswith("<table><caption>net: a test; 5 layers, 4 variants</caption>")
    assert "<th>method</th><th>pattern</th><th>variants</th><th>sparsity</th><th>accuracy</th>" in table
    assert "<td>pruned</td><td>unstructured</td><td>2</td><td>0.5 to 0.9</td><td>70 to 75</td>" in table
    assert "<td>blocky</td><td>block:8x8</td><td>1</td><td>0.7498</td><td></td>" in table
    assert table.count("<tr>") == 1 + 3


def test_the_table_of_a_variant_has_its_accuracy_and_where_it_is_from(net):
    table = net.variant("pruned", 0.9)._repr_html_()
    for row in (("pattern", "unstructured"), ("accuracy", "70"), ("dense network", "76"), ("accuracy source", "a test"), ("layers", "5")):
        assert f"<tr><td>{row[0]}</td><td>{row[1]}</td></tr>" in table
    assert "<tr><td>layer densities</td><td>counted</td></tr>" in table


def test_cells_of_a_table_are_escaped_and_unknown_ones_blank():
    table = html_table("a < b", ("x",), [("<script>",), (None,), (float("nan"),), (1 / 3,)])
    assert table == (
        "<table><caption>a &lt; b</caption><tr><th>x</th></tr><tr><td>&lt;script&gt;</td></tr>"
        "<tr><td></td></tr><tr><td></td></tr><tr><td>0.3333</td></tr></table>"
    )
