"""The scalar functions that plans may use, a family a file. `dataflow.evaluate` compiles expressions of them."""
