"""
Python runs this when it starts, where this directory is in PYTHONPATH: Spark's workers, in tests, take the pyspark that is installed.

Spark puts the same library in front of it as a zip without compiled code, which each worker would compile anew: a second, for each.
"""

import sys

sys.path[:] = [place for place in sys.path if not place.endswith("/pyspark.zip")]
