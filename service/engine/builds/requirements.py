"""Check whether Spark can run here, at the start of the service and in ``upquery doctor``.

Not here: its use (`builds.spark_way`).
"""

from dataflow.spark.java import bundled_java, find_java
from dataflow.spark.problems import RequirementMissing
from dataflow.spark.session import check_packages


def missing_requirement() -> RequirementMissing | None:
    """Returns a missing requirement of Spark, or None."""
    try:
        check_packages()
        # If this exists, Java is recent enough.
        if bundled_java() is None:
            find_java()
    except RequirementMissing as missing:
        return missing
    return None
