"""Whether Spark can run here at all: looked at when the service starts, and by ``upquery doctor``.

Not here: what it is used for (`builds.spark_way`).
"""

from dataflow.spark.java import bundled_java, find_java
from dataflow.spark.problems import RequirementMissing
from dataflow.spark.session import check_packages


def missing_requirement() -> RequirementMissing | None:
    """What is not there that Spark needs; None: nothing."""
    try:
        check_packages()
        # Where this is there, it is new enough, and need not be asked.
        if bundled_java() is None:
            find_java()
    except RequirementMissing as missing:
        return missing
    return None
